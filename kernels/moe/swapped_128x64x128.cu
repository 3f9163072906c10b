#include "unit.cuh"
GB10_UNIT(swapped_128x64x128)
