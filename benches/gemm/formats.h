// SPDX-License-Identifier: Apache-2.0
// The formats decoded by hand, for the reference. sizes.cu holds every code of them against CUTLASS's own types.

#pragma once

#include <cmath>
#include <cstdint>

namespace gb10::bench {

#ifdef __CUDACC__
#define GB10_BOTH __host__ __device__ inline
#else
#define GB10_BOTH inline
#endif

// e4m3 without its NaN (all of exponent and mantissa set); ue4m3 where the sign is never set.
GB10_BOTH double e4m3(uint8_t byte) {
  int const exponent = byte >> 3 & 15, mantissa = byte & 7;
  double const size = exponent ? ldexp(1.0 + mantissa / 8.0, exponent - 7) : ldexp(mantissa / 8.0, -6);
  return byte & 128 ? -size : size;
}

GB10_BOTH double e2m1(uint8_t nibble) {
  int const exponent = nibble >> 1 & 3, mantissa = nibble & 1;
  double const size = exponent ? ldexp(1.0 + mantissa / 2.0, exponent - 1) : mantissa / 2.0;
  return nibble & 8 ? -size : size;
}

}  // namespace gb10::bench
