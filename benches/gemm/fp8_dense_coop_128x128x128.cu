#include "unit.cuh"
GB10_UNIT(fp8_dense_coop_128x128x128)
