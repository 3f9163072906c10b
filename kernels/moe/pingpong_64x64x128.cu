#include "unit.cuh"
GB10_UNIT(pingpong_64x64x128)
