#include "unit.cuh"
// The tiles of one family share most of what the compiler makes of CUTLASS: one unit takes a third of five.
GB10_UNIT(coop_128x128x128)
GB10_UNIT(coop_128x128x64)
GB10_UNIT(coop_128x64x128)
GB10_UNIT(swapped_128x64x128)
GB10_UNIT(swapped_128x32x128)
