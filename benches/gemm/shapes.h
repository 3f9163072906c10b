// SPDX-License-Identifier: Apache-2.0
// What is timed, and what others published for a GB10. Figures of theirs, none of ours.

#pragma once

namespace gb10::bench {

// A GB10's dense FP4 peak: half of the petaflop that is told with sparsity. FP8's is not told; the share is of this one.
constexpr double kPeakTflops = 500;

struct Shape {
  char const* name;
  int m, n, k;    // m: rows of each expert
  int experts;    // 1: dense
  double fp8, fp4;  // TFLOPS published for kernels tuned by hand; 0: none
};

// Published: "SM121 CUTLASS Kernel Optimization Results", GB10, CUDA 13.1, CUTLASS 4.4.0,
// https://forums.developer.nvidia.com/t/359960
// - NVFP4 356 at this shape. FP8 188, "peak (large GEMM)": which one is not told.
// - 154 (tile 256x128) and 147 (128x128) grouped, 8 and 64 experts, "N=256"; NVFP4 by the table above it. Neither rows
//   nor k are told: 16,384 rows in all and k = 4096 are our choice, so that line is no like for like.
// Prefill is 8,192 tokens with 8 experts each, decode 64.
constexpr Shape kShapes[] = {
    {"dense 4096x14336x4096", 4096, 14336, 4096, 1, 188, 356},
    {"8 experts, n 256", 2048, 256, 4096, 8, 0, 154},
    {"64 experts, n 256", 256, 256, 4096, 64, 0, 154},
    {"Qwen3-30B-A3B gate and up, prefill", 512, 1536, 2048, 128, 0, 0},
    {"Qwen3-30B-A3B down, prefill", 512, 2048, 768, 128, 0, 0},
    {"Qwen3-30B-A3B gate and up, decode", 4, 1536, 2048, 128, 0, 0},
    {"Qwen3-235B-A22B gate and up, prefill", 512, 3072, 4096, 128, 0, 0},
    {"256 experts of 512, gate and up, prefill", 256, 1024, 2048, 256, 0, 0},
};

}  // namespace gb10::bench
