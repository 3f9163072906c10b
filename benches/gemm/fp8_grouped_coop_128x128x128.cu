#include "unit.cuh"
GB10_UNIT(fp8_grouped_coop_128x128x128)
