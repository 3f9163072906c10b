#include "unit.cuh"
GB10_UNIT(nvfp4_grouped_coop_256x128x128)
