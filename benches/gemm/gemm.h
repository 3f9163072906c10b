// SPDX-License-Identifier: Apache-2.0
// The kernels that are compiled, and what main.cpp needs to know of each. No CUTLASS in here.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// X(name, family, schedule, M, N, K): M x N of the result per block, K elements per stage. A unit each: name.cu.
#define GB10_GEMMS(X)                                                        \
  X(fp8_dense_coop_128x128x128, DenseFp8, Cooperative, 128, 128, 128)        \
  X(nvfp4_dense_coop_256x128x128, DenseNvfp4, Cooperative, 256, 128, 128)    \
  X(nvfp4_dense_pingpong_128x128x128, DenseNvfp4, Pingpong, 128, 128, 128)   \
  X(fp8_grouped_coop_128x128x128, GroupedFp8, Cooperative, 128, 128, 128)    \
  X(nvfp4_grouped_coop_128x128x128, GroupedNvfp4, Cooperative, 128, 128, 128) \
  X(nvfp4_grouped_coop_256x128x128, GroupedNvfp4, Cooperative, 256, 128, 128)

namespace gb10::bench {

constexpr int kSharedMemory = 101376;  // bytes of a block, on all of SM12x
constexpr int kScaleBlock = 16;        // NVFP4: elements of k that share a scale

// out[g] = a[g] x b[g]^T for every group g; a dense problem is one group.
struct Problem {
  std::vector<int> rows;
  int n, k;
};

// On the device, group after group: a [rows, k], b [n, k], out [rows, n] in bf16. Scales of NVFP4 as scale_at says.
struct Operands {
  void* a;
  void* b;
  void* a_scales;
  void* b_scales;
  void* out;
  int sm_count;
};

// Enqueues the kernel once; what it needs of memory lives as long as it. Returns nullptr, or what went wrong.
using Launch = std::function<char const*()>;

struct Size {
  int bytes, stages, threads;
};

struct Kernel {
  char const* name;
  bool fp4, grouped;
  Launch (*prepare)(Problem const&, Operands const&);
};

constexpr int64_t up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Bytes of the scales of rows x k elements: whole tiles of 128 rows and 4 blocks.
constexpr int64_t scale_bytes(int64_t rows, int64_t k) { return up(rows, 128) * up(k / kScaleBlock, 4); }

// Where the scale of a block of a row lies, in bytes; `blocks` is k / 16, rounded up to 4. A tile of 128 rows by 4
// blocks is 512 bytes; rows r, r + 32, r + 64, r + 96 of it lie side by side. sizes.cu holds this against CUTLASS.
#ifdef __CUDACC__
__host__ __device__
#endif
constexpr int64_t scale_at(int64_t row, int64_t block, int64_t blocks) {
  return (row / 128 * (blocks / 4) + block / 4) * 512 + row % 32 * 16 + row / 32 % 4 * 4 + block % 4;
}

inline void need(cudaError_t error, char const* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

inline std::shared_ptr<void> allocate(size_t bytes) {
  void* memory = nullptr;
  need(cudaMalloc(&memory, bytes ? bytes : 1), "cannot allocate GPU memory");
  return {memory, cudaFree};
}

template <class T>
std::shared_ptr<void> upload(std::vector<T> const& values) {
  auto memory = allocate(values.size() * sizeof(T));
  need(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cannot copy");
  return memory;
}

#define GB10_DECLARE(name, ...) Launch name(Problem const&, Operands const&);
GB10_GEMMS(GB10_DECLARE)
#undef GB10_DECLARE

// sizes.cu, all of it without a GPU: prints a JSON line per check, returns how many are wrong.
int check_sizes();

// reference.cu: the plainest way to the same result, and how far a result is from it.
void fill(void* memory, int64_t bytes, uint8_t keep, uint8_t set, uint32_t seed);
bool holds_code_for_this_gpu();
double relative_error(bool fp4, Problem const&, Operands const&);

}  // namespace gb10::bench
