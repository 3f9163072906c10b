// SPDX-License-Identifier: Apache-2.0
// The grouped GEMM on torch's tensors, with the schema and the meaning of vLLM's own cutlass_moe_mm: arguments are
// checked, a tile is chosen, its unit is run. Stable ABI. Two ways lead here: ops.cpp, and patches/vllm/0004.

#pragma once

#include <cuda_runtime_api.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include "grouped_mm.h"

namespace gb10 {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

struct Tile {
  size_t (*workspace)(GroupedMm const&, bool);
  char const* (*run)(GroupedMm const&, bool, void*, cudaStream_t);
};

inline constexpr Tile kTiles[] = {
#define GB10_ENTRY(name, ...) {name##_workspace, name##_run},
    GB10_MOE_TILES(GB10_ENTRY)
#undef GB10_ENTRY
};

inline int attribute(cudaDeviceAttr what, int device) {
  int value = 0;
  STD_TORCH_CHECK(cudaDeviceGetAttribute(&value, what, device) == cudaSuccess, "gb10: no CUDA device ", device);
  return value;
}

inline cudaStream_t current_stream(int device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<cudaStream_t>(stream);
}

inline bool whole(Tensor const& tensor, int64_t bytes) {
  return tensor.is_contiguous() && reinterpret_cast<uintptr_t>(tensor.data_ptr()) % bytes == 0;
}

inline void check_types(Tensor const& out, Tensor const& a, Tensor const& b, Tensor const& a_scales,
                        Tensor const& b_scales, Tensor const& offsets, Tensor const& sizes) {
  STD_TORCH_CHECK(a.scalar_type() == ScalarType::Float8_e4m3fn && b.scalar_type() == ScalarType::Float8_e4m3fn,
                  "gb10: a and b must be float8_e4m3fn");
  STD_TORCH_CHECK(out.scalar_type() == ScalarType::BFloat16 || out.scalar_type() == ScalarType::Half,
                  "gb10: out must be bfloat16 or float16");
  STD_TORCH_CHECK(a_scales.scalar_type() == ScalarType::Float && b_scales.scalar_type() == ScalarType::Float,
                  "gb10: scales must be float32");
  STD_TORCH_CHECK(offsets.scalar_type() == ScalarType::Long || offsets.scalar_type() == ScalarType::Int,
                  "gb10: expert_offsets must be int64 or int32");
  STD_TORCH_CHECK(sizes.scalar_type() == ScalarType::Int, "gb10: problem_sizes must be int32");
}

// Scales for all of a may come more than once: the first counts, as in vLLM.
inline void check_shapes(Tensor const& out, Tensor const& a, Tensor const& b, Tensor const& a_scales,
                         Tensor const& b_scales, int64_t experts, Tensor const& sizes, bool per_row, bool per_column) {
  int64_t const rows = a.size(0), n = out.size(1), k = a.size(1);
  STD_TORCH_CHECK(experts > 0 && sizes.numel() == experts * 3, "gb10: problem_sizes must be [experts, 3]");
  STD_TORCH_CHECK(k % 16 == 0 && n % 8 == 0, "gb10: k must be a multiple of 16 and n of 8, they are ", k, " and ", n,
                  ": set GB10_CUTLASS_MOE=0 for this model");
  STD_TORCH_CHECK(out.size(0) >= rows, "gb10: out has ", out.size(0), " rows, a has ", rows);
  STD_TORCH_CHECK(b.numel() == experts * n * k, "gb10: b must hold [experts, n, k]");
  STD_TORCH_CHECK(per_row ? a_scales.numel() == rows : a_scales.numel() >= 1, "gb10: a_scales has ", a_scales.numel(),
                  " values for ", rows, " rows");
  STD_TORCH_CHECK(b_scales.numel() == (per_column ? experts * n : experts), "gb10: b_scales has ", b_scales.numel(),
                  " values for ", experts, " experts of ", n);
  STD_TORCH_CHECK(whole(a, 16) && whole(b, 16) && whole(out, 16) && whole(sizes, 4),
                  "gb10: a, b, out and problem_sizes must be contiguous, and begin at multiples of 16 bytes");
}

inline void check_strides(int64_t experts, Tensor const& strides) {
  STD_TORCH_CHECK(strides.scalar_type() == ScalarType::Long && strides.numel() >= experts && strides.is_contiguous(),
                  "gb10: strides must be int64, one per expert");
}

inline void cutlass_moe_mm(Tensor out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor offsets,
                           Tensor sizes, Tensor a_strides, Tensor b_strides, Tensor out_strides, bool per_row,
                           bool per_column) {
  check_types(out, a, b, a_scales, b_scales, offsets, sizes);
  check_shapes(out, a, b, a_scales, b_scales, offsets.size(0), sizes, per_row, per_column);
  for (Tensor const& strides : {a_strides, b_strides, out_strides}) check_strides(offsets.size(0), strides);
  if (a.size(0) == 0) return;
  int const device = a.get_device_index();
  STD_TORCH_CHECK(attribute(cudaDevAttrComputeCapabilityMajor, device) == 12, "gb10: this kernel is for capability 12.x");
  torch::stable::accelerator::DeviceGuard const guard(device);
  GroupedMm const mm{out.data_ptr(), a.data_ptr(), b.data_ptr(),
                     static_cast<float const*>(a_scales.data_ptr()), static_cast<float const*>(b_scales.data_ptr()),
                     offsets.data_ptr(), sizes.data_ptr(),
                     a_strides.data_ptr(), b_strides.data_ptr(), out_strides.data_ptr(),
                     a.size(0), out.size(1), a.size(1), static_cast<int>(offsets.size(0)),
                     offsets.scalar_type() == ScalarType::Long, per_row, per_column,
                     attribute(cudaDevAttrMultiProcessorCount, device)};
  Tile const& tile = kTiles[static_cast<int>(choose_tile(mm.rows, mm.n, mm.k, mm.experts, mm.sm_count))];
  bool const half = out.scalar_type() == ScalarType::Half;
  auto const bytes = static_cast<int64_t>(tile.workspace(mm, half));
  Tensor const workspace = torch::stable::empty({bytes}, ScalarType::Byte, std::nullopt, a.device());
  char const* error = tile.run(mm, half, workspace.data_ptr(), current_stream(device));
  STD_TORCH_CHECK(error == nullptr, "gb10: the grouped GEMM was not started: ", error);
}

}  // namespace gb10
