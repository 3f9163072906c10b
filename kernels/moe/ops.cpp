// SPDX-License-Identifier: Apache-2.0
// torch.ops.gb10.cutlass_moe_mm: the schema and the meaning of vLLM's own operator of that name, for SM12x. Stable ABI.

#include <torch/csrc/stable/library.h>

#include "call.h"

STABLE_TORCH_LIBRARY(gb10, library) {
  library.def(
      "cutlass_moe_mm(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor expert_offsets, "
      "Tensor problem_sizes, Tensor a_strides, Tensor b_strides, Tensor c_strides, bool per_act_token, "
      "bool per_out_ch) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(gb10, CUDA, library) { library.impl("cutlass_moe_mm", TORCH_BOX(&gb10::cutlass_moe_mm)); }
