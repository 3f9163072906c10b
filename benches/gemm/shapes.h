// SPDX-License-Identifier: Apache-2.0
// What is timed. What others published for a GB10 is in recipes/bench/gemm.yaml, by the name of a shape.

#pragma once

namespace gb10::bench {

// A GB10's dense FP4 peak: half of the petaflop that is told with sparsity. FP8's is not told; the share is of this one.
constexpr double kPeakTflops = 500;

struct Shape {
  char const* name;
  int m, n, k;    // m: rows of each expert
  int experts;    // 1: dense
};

// Grouped, n 256: the published figures name neither rows nor k. 16,384 rows in all and k = 4096 are our choice.
// Prefill is 8,192 tokens with 8 experts each, decode 64.
constexpr Shape kShapes[] = {
    {"dense 4096x14336x4096", 4096, 14336, 4096, 1},
    {"8 experts, n 256", 2048, 256, 4096, 8},
    {"64 experts, n 256", 256, 256, 4096, 64},
    {"Qwen3-30B-A3B gate and up, prefill", 512, 1536, 2048, 128},
    {"Qwen3-30B-A3B down, prefill", 512, 2048, 768, 128},
    {"Qwen3-30B-A3B gate and up, decode", 4, 1536, 2048, 128},
    {"Qwen3-235B-A22B gate and up, prefill", 512, 3072, 4096, 128},
    {"256 experts of 512, gate and up, prefill", 256, 1024, 2048, 256},
};

}  // namespace gb10::bench
