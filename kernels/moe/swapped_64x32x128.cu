#include "unit.cuh"
GB10_UNIT(swapped_64x32x128)
