// SPDX-License-Identifier: Apache-2.0
// What a caller of the grouped GEMM needs to know: its arguments and the compiled tiles. No CUTLASS in here.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tiles.h"

namespace gb10 {

// What one call reads and writes, all on the device. Offsets, sizes and strides are the caller's, one per expert.
struct GroupedMm {
  void* out;                      // [rows, n], bf16 or fp16, rows sorted by expert
  void const* a;                  // [rows, k], e4m3
  void const* b;                  // [experts, n, k], e4m3
  float const* a_scales;          // [rows] or [1]
  float const* b_scales;          // [experts, n] or [experts]
  void const* expert_offsets;     // [experts], int64 or int32: each expert's first row
  void const* problem_sizes;      // [experts, 3], int32: (m, n, k), or (n, m, k) up to kSwapRows rows
  void const* a_strides;          // [experts], int64: elements from row to row
  void const* b_strides;
  void const* out_strides;
  int64_t rows, n, k;
  int experts;
  bool wide_offsets;              // expert_offsets are int64
  bool scale_per_row, scale_per_column;
  int sm_count;
};

// Two functions per tile, defined in the unit of its family (unit.cuh); run returns nullptr, or what went wrong.
#define GB10_DECLARE(name, ...)                                               \
  size_t name##_workspace(GroupedMm const& mm, bool half);                    \
  char const* name##_run(GroupedMm const& mm, bool half, void* workspace, cudaStream_t stream);
GB10_MOE_TILES(GB10_DECLARE)
#undef GB10_DECLARE

}  // namespace gb10
