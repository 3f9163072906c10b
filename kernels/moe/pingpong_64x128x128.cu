#include "unit.cuh"
GB10_UNIT(pingpong_64x128x128)
