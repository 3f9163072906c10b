#include "unit.cuh"
GB10_UNIT(swapped_128x32x128)
