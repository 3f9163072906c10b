#include "unit.cuh"
GB10_UNIT(nvfp4_grouped_coop_128x128x128)
