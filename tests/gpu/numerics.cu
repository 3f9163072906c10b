// SPDX-License-Identifier: Apache-2.0
// The grouped kernels against an fp64 reference on a GPU: every tile, both outputs, all ways of scaling.
//
// Prints one JSON object per case and exits with 1 when one of them is wrong. On SM12x it is the shipped code; elsewhere
// run.py swaps the one MMA instruction that the GPU lacks.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "grouped_mm_sm120.cuh"
#include "tiles.h"

namespace {

constexpr double kTolerance = 1e-2;  // relative Frobenius error of an expert
constexpr double kElement = 0.02;    // error of one element, of itself and of the expert's root mean square

#define CHECK(call)                                                                                    \
  do {                                                                                                 \
    cudaError_t const error = (call);                                                                  \
    if (error != cudaSuccess) {                                                                        \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));              \
      std::exit(2);                                                                                    \
    }                                                                                                  \
  } while (false)

template <class T>
T* on_device(std::vector<T> const& values) {
  T* to = nullptr;
  CHECK(cudaMalloc(&to, std::max<size_t>(1, values.size()) * sizeof(T)));
  CHECK(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return to;
}

struct Case {
  std::string name;
  std::vector<int> rows;  // per expert
  int n, k;
  bool per_row, per_column, shuffled;
};

// One thread per element of the result, in double; expert by expert.
__global__ void reference(double* out, cutlass::float_e4m3_t const* a, cutlass::float_e4m3_t const* b,
                          float const* a_scales, float const* b_scales, int first, int rows, int n, int k, int expert,
                          bool per_row, bool per_column) {
  int const column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column >= n || row >= rows) return;
  double sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += double(float(a[int64_t(first + row) * k + i])) * double(float(b[(int64_t(expert) * n + column) * k + i]));
  }
  sum *= double(a_scales[per_row ? first + row : 0]) * double(b_scales[per_column ? int64_t(expert) * n + column : expert]);
  out[int64_t(first + row) * n + column] = sum;
}

struct Data {
  std::vector<int> first;  // each expert's first row; shuffled: experts do not lie in their order
  int rows = 0;
  cutlass::float_e4m3_t *a, *b;
  float *a_scales, *b_scales;
  double* expected;

  explicit Data(Case const& c) : first(c.rows.size()) {
    std::mt19937 random(7);
    std::vector<int> order(c.rows.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int(i);
    if (c.shuffled) std::shuffle(order.begin(), order.end(), random);
    for (int expert : order) { first[expert] = rows; rows += c.rows[expert]; }
    std::uniform_real_distribution<float> value(-2.f, 2.f), scale(0.25f, 1.5f);
    std::vector<cutlass::float_e4m3_t> host_a(size_t(rows) * c.k), host_b(c.rows.size() * size_t(c.n) * c.k);
    for (auto& x : host_a) x = cutlass::float_e4m3_t(value(random));
    for (auto& x : host_b) x = cutlass::float_e4m3_t(value(random));
    std::vector<float> sa(c.per_row ? std::max(1, rows) : 1), sb(c.per_column ? c.rows.size() * size_t(c.n) : c.rows.size());
    for (auto& x : sa) x = scale(random);
    for (auto& x : sb) x = scale(random);
    a = on_device(host_a); b = on_device(host_b); a_scales = on_device(sa); b_scales = on_device(sb);
    CHECK(cudaMalloc(&expected, std::max<size_t>(1, size_t(rows) * c.n) * sizeof(double)));
    for (size_t expert = 0; expert < c.rows.size(); ++expert) {
      if (c.rows[expert] == 0) continue;
      reference<<<dim3((c.n + 127) / 128, c.rows[expert]), 128>>>(
          expected, a, b, a_scales, b_scales, first[expert], c.rows[expert], c.n, c.k, int(expert), c.per_row, c.per_column);
    }
    CHECK(cudaDeviceSynchronize());
  }
  ~Data() { cudaFree(a); cudaFree(b); cudaFree(a_scales); cudaFree(b_scales); cudaFree(expected); }
};

template <class Out>
struct OutName;
template <>
struct OutName<cutlass::bfloat16_t> { static constexpr char const* value = "bf16"; };
template <>
struct OutName<cutlass::half_t> { static constexpr char const* value = "fp16"; };

constexpr int kGuard = 4096;  // elements before and after the result that nobody may write
constexpr uint16_t kMark = 0x7a5c;

struct Outcome { double worst; bool guarded; int64_t astray; };

// Relative Frobenius error of the worst expert, and whether the bytes around the result are as before.
template <class Out>
Outcome judge(Case const& c, Data const& data, std::vector<uint16_t> const& raw) {
  std::vector<double> expected(size_t(data.rows) * c.n);
  CHECK(cudaMemcpy(expected.data(), data.expected, expected.size() * sizeof(double), cudaMemcpyDeviceToHost));
  Outcome outcome{0, true, 0};
  for (int i = 0; i < kGuard; ++i) {
    outcome.guarded = outcome.guarded && raw[i] == kMark && raw[raw.size() - 1 - i] == kMark;
  }
  for (size_t expert = 0; expert < c.rows.size(); ++expert) {
    double wrong = 0, size = 0, count = 0;
    for (int64_t i = int64_t(data.first[expert]) * c.n; i < int64_t(data.first[expert] + c.rows[expert]) * c.n; ++i) {
      Out found;
      std::memcpy(&found, &raw[kGuard + i], sizeof(found));
      double const off = double(float(found)) - expected[i];
      wrong += off * off;
      size += expected[i] * expected[i];
      count += 1;
    }
    double const typical = count ? std::sqrt(size / count) : 0;
    for (int64_t i = int64_t(data.first[expert]) * c.n; i < int64_t(data.first[expert] + c.rows[expert]) * c.n; ++i) {
      Out found;
      std::memcpy(&found, &raw[kGuard + i], sizeof(found));
      outcome.astray += !(std::fabs(double(float(found)) - expected[i]) <= kElement * (std::fabs(expected[i]) + typical));
    }
    if (size > 0) outcome.worst = std::max(outcome.worst, std::isfinite(wrong) ? std::sqrt(wrong / size) : 1e30);
  }
  return outcome;
}

// What one call reads besides a, b and the scales: on the device, so that a captured graph can be given other values.
template <class K>
struct Call {
  std::vector<int64_t> offsets, in_strides, out_strides;
  std::vector<int> sizes;

  Call(Case const& c, Data const& data)
      : offsets(data.first.begin(), data.first.end()), in_strides(c.rows.size(), c.k), out_strides(c.rows.size(), c.n) {
    for (int rows : c.rows) {
      for (int extent : {K::kSwapped ? c.n : rows, K::kSwapped ? rows : c.n, c.k}) sizes.push_back(extent);
    }
  }
};

template <class K>
struct OnDevice {
  std::vector<uint16_t> raw;
  uint16_t* out;
  int64_t *offsets, *in_strides, *out_strides;  // half of the offsets are used when they are int32
  int* sizes;
  void* workspace = nullptr;
  gb10::GroupedMm mm;

  OnDevice(Case const& c, Data const& data, Call<K> const& call, int sm_count)
      : raw(size_t(data.rows) * c.n + 2 * kGuard, kMark), out(on_device(raw)), offsets(on_device(call.offsets)),
        in_strides(on_device(call.in_strides)), out_strides(on_device(call.out_strides)), sizes(on_device(call.sizes)),
        mm{out + kGuard, data.a, data.b, data.a_scales, data.b_scales, offsets, sizes, in_strides, in_strides,
           out_strides, data.rows, c.n, c.k, int(c.rows.size()), !c.shuffled, c.per_row, c.per_column, sm_count} {
    CHECK(cudaMalloc(&workspace, gb10::workspace_bytes<K>(mm)));
    place(call);
  }
  void place(Call<K> const& call) {
    std::vector<int32_t> const narrow(call.offsets.begin(), call.offsets.end());
    void const* from = mm.wide_offsets ? static_cast<void const*>(call.offsets.data()) : narrow.data();
    size_t const width = mm.wide_offsets ? sizeof(int64_t) : sizeof(int32_t);
    CHECK(cudaMemcpy(offsets, from, call.offsets.size() * width, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(sizes, call.sizes.data(), call.sizes.size() * sizeof(int), cudaMemcpyHostToDevice));
  }
  ~OnDevice() {
    for (void* used : {(void*)out, (void*)offsets, (void*)in_strides, (void*)out_strides, (void*)sizes, workspace}) {
      cudaFree(used);
    }
  }
  Outcome judged(Case const& c, Data const& data) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(raw.data(), out, raw.size() * sizeof(uint16_t), cudaMemcpyDeviceToHost));
    return judge<typename K::Out>(c, data, raw);
  }
};

template <class K>
bool told(char const* tile, Case const& c, Data const& data, cutlass::Status status, Outcome outcome) {
  bool const good = status == cutlass::Status::kSuccess && outcome.worst <= kTolerance && outcome.guarded &&
                    outcome.astray == 0;
  std::printf("{\"case\": \"%s\", \"tile\": \"%s\", \"out\": \"%s\", \"n\": %d, \"k\": %d, \"experts\": %d, \"rows\": %d, "
              "\"error\": %.3e, \"astray\": %lld, \"status\": \"%s\", \"guarded\": %s, \"ok\": %s}\n",
              c.name.c_str(), tile, OutName<typename K::Out>::value, c.n, c.k, int(c.rows.size()), data.rows,
              outcome.worst, (long long)outcome.astray, cutlass::cutlassGetStatusString(status), outcome.guarded ? "true" : "false",
              good ? "true" : "false");
  return good;
}

template <class K>
bool run_case(char const* tile, Case const& c, Data const& data, int sm_count) {
  OnDevice<K> at(c, data, Call<K>(c, data), sm_count);
  cutlass::Status const status = gb10::run<K>(at.mm, at.workspace, nullptr);
  return told<K>(tile, c, data, status, at.judged(c, data));
}

// Captured once, replayed after the experts' rows have changed: as an engine does for every step of a decode.
template <class K>
bool run_graph(char const* tile, Case const& c, Data const& data, int sm_count) {
  Case captured = c;
  std::rotate(captured.rows.begin(), captured.rows.begin() + 1, captured.rows.end());
  Data const before(captured);
  OnDevice<K> at(c, data, Call<K>(captured, before), sm_count);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cutlass::Status const status = gb10::run<K>(at.mm, at.workspace, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  CHECK(cudaGraphLaunch(ready, stream));
  CHECK(cudaStreamSynchronize(stream));
  Call<K> const call(c, data);
  at.place(call);
  CHECK(cudaMemcpy(at.out, at.raw.data(), at.raw.size() * sizeof(uint16_t), cudaMemcpyHostToDevice));
  for (int again = 0; again < 3; ++again) CHECK(cudaGraphLaunch(ready, stream));
  CHECK(cudaStreamSynchronize(stream));
  Case named = c;
  named.name += ", replayed";
  bool const good = told<K>(tile, named, data, status, at.judged(c, data));
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  return good;
}

// Groups of every size after each other: a descriptor that is changed too early or too late shows here.
Case random_case(int number) {
  std::mt19937 random(1000 + number);
  auto below = [&](int limit) { return int(random() % limit); };
  std::vector<int> rows(1 + below(96));
  for (int& count : rows) count = below(4) == 0 ? 0 : below(number % 2 ? 200 : 20);
  return {"random " + std::to_string(number), rows, 8 * (1 + below(160)), 16 * (1 + below(96)),
          below(2) == 0, below(2) == 0, below(2) == 0};
}

std::vector<Case> cases(int randoms) {
  std::vector<int> const mixed{1, 7, 64, 65, 0, 511, 128, 33}, empty_ends{0, 3, 0, 0, 12, 0}, one{1}, five{511};
  std::vector<int> many(128), few(64, 1);
  for (size_t i = 0; i < many.size(); ++i) many[i] = int(i * 7 % 13);
  std::vector<Case> all{
      {"mixed, per token and channel", mixed, 768, 2048, true, true, false},
      {"mixed, per tensor", mixed, 768, 2048, false, false, false},
      {"mixed, per token", mixed, 2048, 768, true, false, false},
      {"mixed, per channel", mixed, 2048, 768, false, true, false},
      {"mixed, experts out of order", mixed, 256, 4096, true, true, true},
      {"empty first and last", empty_ends, 1536, 2048, true, true, false},
      {"one expert, one row", one, 4096, 14336, true, true, false},
      {"one expert, 511 rows", five, 512, 7168, true, true, false},
      {"64 experts, one row each", few, 1408, 2048, true, true, false},
      {"128 experts", many, 704, 2880, true, true, false},
      {"narrow n", mixed, 8, 128, true, true, false},
      {"k of one tile", mixed, 264, 128, true, true, false},
      {"k not of whole tiles", mixed, 256, 1040, true, true, false},
      {"no rows at all", {0, 0, 0}, 256, 512, true, true, false},
  };
  for (int number = 0; number < randoms; ++number) all.push_back(random_case(number));
  return all;
}

}  // namespace

#ifndef GB10_ONLY
#define GB10_ONLY(X) GB10_MOE_TILES(X)
#endif

int main(int count, char** words) {
  int device = 0, sm_count = 0, failed = 0;
  CHECK(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, device));
  std::string const only = count > 1 ? words[1] : "";
  for (Case const& c : cases(count > 2 ? std::atoi(words[2]) : 12)) {
    if (!only.empty() && c.name.find(only) == std::string::npos) continue;
    Data data(c);
    bool const replayed = c.name.rfind("mixed", 0) == 0;
#define GB10_RUN(name, Family, M, N, K, Swapped)                                                          \
    failed += !run_case<gb10::Family<cutlass::bfloat16_t, M, N, K, Swapped>>(#name, c, data, sm_count);   \
    failed += !run_case<gb10::Family<cutlass::half_t, M, N, K, Swapped>>(#name, c, data, sm_count);       \
    if (replayed) failed += !run_graph<gb10::Family<cutlass::bfloat16_t, M, N, K, Swapped>>(#name, c, data, sm_count);
    GB10_ONLY(GB10_RUN)
#undef GB10_RUN
  }
  return failed ? 1 : 0;
}
