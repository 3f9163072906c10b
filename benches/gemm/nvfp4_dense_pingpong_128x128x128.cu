#include "unit.cuh"
GB10_UNIT(nvfp4_dense_pingpong_128x128x128)
