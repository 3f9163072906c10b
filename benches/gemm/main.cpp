// SPDX-License-Identifier: Apache-2.0
// Checks and times the GEMMs on this machine's GPU; a JSON object per line. Where no GPU can run them it says so, and
// checks what needs none. Exit codes: 0 right, 1 a check is wrong (or --require-gpu and none), 2 CUDA broke off.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "gemm.h"
#include "shapes.h"

namespace gb10::bench {
namespace {

#define GB10_QUOTED(text) #text
#define GB10_TEXT(macro) GB10_QUOTED(macro)

constexpr double kTolerance = 1e-2;  // bf16's rounding gives under 2e-3
constexpr int kGb10Multiprocessors = 48;

#define GB10_FP4_DenseFp8 false, false
#define GB10_FP4_DenseNvfp4 true, false
#define GB10_FP4_GroupedFp8 false, true
#define GB10_FP4_GroupedNvfp4 true, true
constexpr Kernel kKernels[] = {
#define GB10_ENTRY(name, Family, ...) {#name, GB10_FP4_##Family, name},
    GB10_GEMMS(GB10_ENTRY)
#undef GB10_ENTRY
};

struct Options {
  bool sizes = false, require_gpu = false;
  int runs = 20;
  std::string only;
};

struct Gpu {
  std::string name;
  int major = 0, minor = 0, multiprocessors = 0;

  bool is_gb10() const { return major == 12 && minor == 1 && multiprocessors == kGb10Multiprocessors; }
};

// Operands of a problem, filled: e4m3 below 2, all of e2m1, scales from 0.5 to 1.875. All of it is random, since data
// that are alike need less power and so run faster.
struct Data {
  std::vector<std::shared_ptr<void>> held;
  Operands at{};

  Data(bool fp4, Problem const& p, int multiprocessors) {
    int64_t rows = 0, scales = 0, groups = int64_t(p.rows.size());
    for (int here : p.rows) {
      rows += here;
      scales += scale_bytes(here, p.k);
    }
    uint8_t const keep = fp4 ? 0xFF : 0xBF;
    at.a = random(rows * p.k / (fp4 ? 2 : 1), keep, 0, 1);
    at.b = random(groups * p.n * p.k / (fp4 ? 2 : 1), keep, 0, 2);
    at.a_scales = random(fp4 ? scales : 0, 0x0F, 0x30, 3);
    at.b_scales = random(fp4 ? groups * scale_bytes(p.n, p.k) : 0, 0x0F, 0x30, 4);
    at.out = random(rows * p.n * 2, 0, 0xFF, 5);  // NaN where nothing is written
    at.sm_count = multiprocessors;
  }

  void* random(int64_t bytes, uint8_t keep, uint8_t set, uint32_t seed) {
    held.push_back(allocate(size_t(bytes)));
    if (bytes) fill(held.back().get(), bytes, keep, set, seed);
    return held.back().get();
  }
};

void run(Launch const& launch) {
  if (char const* wrong = launch()) throw std::runtime_error(wrong);
}

// A small problem with tails in every direction; grouped: an empty group, and groups of one tile and of several.
bool check_result(Kernel const& kernel, Gpu const& gpu) {
  Problem const problem{kernel.grouped ? std::vector<int>{1, 130, 0, 77, 256} : std::vector<int>{250}, 264, 576};
  Data const data(kernel.fp4, problem, gpu.multiprocessors);
  std::string wrong;
  try {
    run(kernel.prepare(problem, data.at));
    need(cudaDeviceSynchronize(), kernel.name);
  } catch (std::runtime_error const& error) {
    wrong = error.what();
  }
  double const error = wrong.empty() ? relative_error(kernel.fp4, problem, data.at) : 1e30;
  bool const ok = error <= kTolerance;
  std::printf("{\"kind\": \"result\", \"kernel\": \"%s\", \"error\": %.3e, \"limit\": %.0e, \"said\": \"%s\", \"ok\": %s}\n",
              kernel.name, error, kTolerance, wrong.c_str(), ok ? "true" : "false");
  return ok;
}

struct Event {
  cudaEvent_t event{};
  Event() { need(cudaEventCreate(&event), "cannot make an event"); }
  ~Event() { cudaEventDestroy(event); }
};

double median_ms(Launch const& launch, int runs) {
  Event begin, end;
  for (int i = 0; i < 3; ++i) run(launch);  // not counted: clocks rise, code is loaded
  std::vector<float> times(runs);
  for (float& time : times) {
    need(cudaEventRecord(begin.event), "cannot start the clock");
    run(launch);
    need(cudaEventRecord(end.event), "cannot stop the clock");
    need(cudaEventSynchronize(end.event), "the kernel failed");
    need(cudaEventElapsedTime(&time, begin.event, end.event), "cannot read the clock");
  }
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return times[runs / 2];
}

std::string number(double value, bool told) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return told ? text : "null";
}

// The peak is a GB10's: on another GPU the share would say nothing.
void time_shape(Kernel const& kernel, Shape const& shape, Gpu const& gpu, int runs) {
  Problem const problem{std::vector<int>(shape.experts, shape.m), shape.n, shape.k};
  Data const data(kernel.fp4, problem, gpu.multiprocessors);
  double const ms = median_ms(kernel.prepare(problem, data.at), runs);
  double const tflops = 2.0 * shape.m * shape.n * shape.k * shape.experts / ms / 1e9;
  std::printf("{\"kind\": \"time\", \"kernel\": \"%s\", \"shape\": \"%s\", \"m\": %d, \"n\": %d, \"k\": %d, \"experts\": %d, "
              "\"ms\": %.4f, \"tflops\": %.2f, \"of_peak\": %s}\n",
              kernel.name, shape.name, shape.m, shape.n, shape.k, shape.experts, ms, tflops,
              number(tflops / kPeakTflops, gpu.is_gb10()).c_str());
  std::fflush(stdout);
}

// Why nothing can run here; empty when it can.
std::string find_gpu(Gpu& gpu) {
  int count = 0;
  cudaError_t const error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {  // also where there is none
    return "no NVIDIA driver here, or one too old for CUDA " + std::to_string(CUDART_VERSION / 1000);
  }
  if (error != cudaSuccess) return std::string("no GPU to use: ") + cudaGetErrorString(error);
  if (count == 0) return "there is no GPU";
  cudaDeviceProp found;
  need(cudaGetDeviceProperties(&found, 0), "cannot ask the GPU what it is");
  gpu = {found.name, found.major, found.minor, found.multiProcessorCount};
  if (holds_code_for_this_gpu()) return "";
  return std::string("the GPU here is ") + found.name + " of capability " + std::to_string(found.major) + "." +
         std::to_string(found.minor) + ", this program was compiled for " + GB10_TEXT(GB10_ARCH);
}

int run_all(Options const& options) {
  int wrong = check_sizes();
  if (options.sizes) return wrong ? 1 : 0;
  Gpu gpu;
  std::string const why = find_gpu(gpu);
  if (!why.empty()) {
    std::printf("{\"kind\": \"not-run\", \"what\": \"results and times\", \"why\": \"%s\"}\n", why.c_str());
    return wrong || options.require_gpu ? 1 : 0;
  }
  std::printf("{\"kind\": \"gpu\", \"name\": \"%s\", \"capability\": \"%d.%d\", \"multiprocessors\": %d, \"gb10\": %s}\n",
              gpu.name.c_str(), gpu.major, gpu.minor, gpu.multiprocessors, gpu.is_gb10() ? "true" : "false");
  for (Kernel const& kernel : kKernels) {
    if (!options.only.empty() && !std::strstr(kernel.name, options.only.c_str())) continue;
    bool const right = check_result(kernel, gpu);
    wrong += !right;
    for (Shape const& shape : kShapes) {
      if (right && kernel.grouped == (shape.experts > 1)) time_shape(kernel, shape, gpu, options.runs);
    }
  }
  return wrong ? 1 : 0;
}

int count_of(std::string const& word) {
  int value = 0;
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || *end || value < 1) throw std::invalid_argument("--runs wants a number, 1 or more: " + word);
  return value;
}

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word == "--sizes") options.sizes = true;
    else if (word == "--require-gpu") options.require_gpu = true;
    else if (word == "--runs" && i + 1 < count) options.runs = count_of(words[++i]);
    else if (word == "--only" && i + 1 < count) options.only = words[++i];
    else throw std::invalid_argument("gemm [--sizes] [--require-gpu] [--runs N] [--only PART-OF-A-KERNEL'S-NAME]");
  }
  return options;
}

}  // namespace
}  // namespace gb10::bench

int main(int count, char** words) try {
  return gb10::bench::run_all(gb10::bench::parse(count, words));
} catch (std::exception const& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
