#include "unit.cuh"
GB10_UNIT(pingpong_64x128x128)
GB10_UNIT(pingpong_64x64x128)
GB10_UNIT(swapped_64x32x128)
