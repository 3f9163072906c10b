// SPDX-License-Identifier: Apache-2.0
// Prints what every tile needs of a block's shared memory, and its stages. Runs without a GPU.

#include <cstdio>

#include "grouped_mm_sm120.cuh"

template <class K>
bool show(char const* name, char const* out) {
  int const bytes = int(sizeof(typename K::Gemm::SharedStorage));
  std::printf("{\"tile\": \"%s\", \"out\": \"%s\", \"bytes\": %d, \"stages\": %d, \"threads\": %d}\n", name, out, bytes,
              K::Mainloop::DispatchPolicy::Stages, int(K::Gemm::MaxThreadsPerBlock));
  return bytes <= 101376;
}

int main() {
  bool fits = true;
#define GB10_SHOW(name, Family, M, N, K, Swapped)                                       \
  fits &= show<gb10::Family<cutlass::bfloat16_t, M, N, K, Swapped>>(#name, "bf16");      \
  fits &= show<gb10::Family<cutlass::half_t, M, N, K, Swapped>>(#name, "fp16");
  GB10_MOE_TILES(GB10_SHOW)
#undef GB10_SHOW
  return fits ? 0 : 1;
}
