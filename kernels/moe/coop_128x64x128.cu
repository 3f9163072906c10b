#include "unit.cuh"
GB10_UNIT(coop_128x64x128)
