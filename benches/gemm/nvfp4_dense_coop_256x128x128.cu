#include "unit.cuh"
GB10_UNIT(nvfp4_dense_coop_256x128x128)
