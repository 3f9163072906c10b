// SPDX-License-Identifier: Apache-2.0
// What a unit holds: `GB10_UNIT(name)` with a tile of tiles.h defines its two functions, for bf16 and fp16.

#pragma once

#include "grouped_mm_sm120.cuh"

namespace gb10 {

#define GB10_ALIAS(name, Family, M, N, K, Swapped) \
  template <class Out>                             \
  using name##_kernel = Family<Out, M, N, K, Swapped>;
GB10_MOE_TILES(GB10_ALIAS)
#undef GB10_ALIAS

inline char const* said(cutlass::Status status) {
  return status == cutlass::Status::kSuccess ? nullptr : cutlass::cutlassGetStatusString(status);
}

}  // namespace gb10

#define GB10_UNIT(name)                                                                                            \
  namespace gb10 {                                                                                                 \
  size_t name##_workspace(GroupedMm const& mm, bool half) {                                                        \
    return half ? workspace_bytes<name##_kernel<cutlass::half_t>>(mm)                                              \
                : workspace_bytes<name##_kernel<cutlass::bfloat16_t>>(mm);                                         \
  }                                                                                                                \
  char const* name##_run(GroupedMm const& mm, bool half, void* workspace, cudaStream_t stream) {                   \
    return said(half ? run<name##_kernel<cutlass::half_t>>(mm, workspace, stream)                                  \
                     : run<name##_kernel<cutlass::bfloat16_t>>(mm, workspace, stream));                            \
  }                                                                                                                \
  }
