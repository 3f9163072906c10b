// SPDX-License-Identifier: Apache-2.0
// Operands, and the plainest way to the same result: one thread per element, in double. No CUTLASS, so that no mistake
// of its types is on both sides.

#include <algorithm>
#include <cmath>

#include "formats.h"
#include "gemm.h"

namespace gb10::bench {
namespace {

constexpr int kThreads = 256;

__device__ uint32_t mixed(uint64_t index, uint32_t seed) {
  uint64_t x = (index + 1) * 0x9E3779B97F4A7C15ull + seed;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
  return uint32_t(x >> 32);
}

__global__ void fill_bytes(uint8_t* to, int64_t bytes, uint8_t keep, uint8_t set, uint32_t seed) {
  int64_t const step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < bytes; i += step) {
    to[i] = uint8_t((mixed(i, seed) & keep) | set);
  }
}

__device__ double element(bool fp4, uint8_t const* values, uint8_t const* scales, int64_t row, int k, int i) {
  int64_t const index = row * k + i;
  if (!fp4) return e4m3(values[index]);
  int64_t const blocks = (k / kScaleBlock + 3) / 4 * 4;
  double const scale = e4m3(scales[scale_at(row, i / kScaleBlock, blocks)]);
  return scale * e2m1(index % 2 ? values[index / 2] >> 4 : values[index / 2] & 15);
}

struct Group {
  bool fp4;
  uint8_t const *a, *b, *a_scales, *b_scales;
  uint16_t const* out;  // bf16
  int rows, n, k;
};

// sums[0]: squares of what is off, sums[1]: squares of what was expected.
__global__ void compare(Group group, double* sums) {
  int64_t const index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= int64_t(group.rows) * group.n) return;
  int64_t const row = index / group.n, column = index % group.n;
  double expected = 0;
  for (int i = 0; i < group.k; ++i) {
    expected += element(group.fp4, group.a, group.a_scales, row, group.k, i) *
                element(group.fp4, group.b, group.b_scales, column, group.k, i);
  }
  double const off = double(__uint_as_float(uint32_t(group.out[index]) << 16)) - expected;
  atomicAdd(sums, off * off);
  atomicAdd(sums + 1, expected * expected);
}

}  // namespace

void fill(void* memory, int64_t bytes, uint8_t keep, uint8_t set, uint32_t seed) {
  fill_bytes<<<1024, kThreads>>>(static_cast<uint8_t*>(memory), bytes, keep, set, seed);
  need(cudaGetLastError(), "cannot fill GPU memory");
}

bool holds_code_for_this_gpu() {
  cudaFuncAttributes found;
  bool const there = cudaFuncGetAttributes(&found, compare) == cudaSuccess;
  cudaGetLastError();  // a code that is not there is no error of what follows
  return there;
}

// Of the worst group, by Frobenius norms.
double relative_error(bool fp4, Problem const& p, Operands const& data) {
  auto const bytes = [](void* start, int64_t offset) { return static_cast<uint8_t const*>(start) + offset; };
  double worst = 0;
  int64_t first = 0, scaled = 0;
  for (int64_t number = 0; number < int64_t(p.rows.size()); ++number) {
    int const rows = p.rows[number], width = fp4 ? 2 : 1;
    Group const group{fp4, bytes(data.a, first * p.k / width), bytes(data.b, number * p.n * p.k / width),
                      bytes(data.a_scales, scaled), bytes(data.b_scales, number * scale_bytes(p.n, p.k)),
                      static_cast<uint16_t const*>(data.out) + first * p.n, rows, p.n, p.k};
    first += rows;
    scaled += scale_bytes(rows, p.k);
    if (rows == 0) continue;
    auto sums = upload(std::vector<double>{0, 0});
    compare<<<unsigned((int64_t(rows) * p.n + kThreads - 1) / kThreads), kThreads>>>(
        group, static_cast<double*>(sums.get()));
    double found[2];
    need(cudaMemcpy(found, sums.get(), sizeof found, cudaMemcpyDeviceToHost), "the reference failed");
    double const error = std::sqrt(found[0] / found[1]);
    worst = std::isfinite(error) ? std::max(worst, error) : 1e30;
    if (worst == 1e30) return worst;
  }
  return worst;
}

}  // namespace gb10::bench
