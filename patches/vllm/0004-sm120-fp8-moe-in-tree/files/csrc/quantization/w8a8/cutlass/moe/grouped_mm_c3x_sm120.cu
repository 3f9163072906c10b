// SPDX-License-Identifier: Apache-2.0
// cutlass_moe_mm on SM12x: the kernels in gb10/, by the name that scaled_mm_entry.cu calls.

#include "gb10/call.h"

void cutlass_moe_mm_sm120(torch::stable::Tensor& out, torch::stable::Tensor const& a, torch::stable::Tensor const& b,
                          torch::stable::Tensor const& a_scales, torch::stable::Tensor const& b_scales,
                          torch::stable::Tensor const& expert_offsets, torch::stable::Tensor const& problem_sizes,
                          torch::stable::Tensor const& a_strides, torch::stable::Tensor const& b_strides,
                          torch::stable::Tensor const& out_strides, bool per_row, bool per_column) {
  gb10::cutlass_moe_mm(out, a, b, a_scales, b_scales, expert_offsets, problem_sizes, a_strides, b_strides, out_strides,
                       per_row, per_column);
}
