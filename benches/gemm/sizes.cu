// SPDX-License-Identifier: Apache-2.0
// What can be checked without a GPU: shared memory of every kernel, how formats are decoded, where their scales lie.
// With -DGB10_SIZES_ALONE it is a program of its own, for a building machine of another architecture than the target's.

#include <cstdio>

#include "formats.h"
#include "gemm_sm120.cuh"

namespace gb10::bench {
namespace {

template <class K>
int check_size(char const* name) {
  int const bytes = int(sizeof(typename K::Gemm::SharedStorage));
  bool const fits = bytes <= kSharedMemory && K::Mainloop::DispatchPolicy::Stages >= 2;
  std::printf("{\"kind\": \"size\", \"kernel\": \"%s\", \"bytes\": %d, \"limit\": %d, \"stages\": %d, \"threads\": %d, "
              "\"ok\": %s}\n",
              name, bytes, kSharedMemory, int(K::Mainloop::DispatchPolicy::Stages), int(K::Gemm::MaxThreadsPerBlock),
              fits ? "true" : "false");
  return !fits;
}

// The reference's formula against CUTLASS's layout, on every element of an extent.
int check_scales(int rows, int k) {
  using Scales = cutlass::detail::Sm1xxBlockScaledConfig<kScaleBlock>;
  auto const a = Scales::tile_atom_to_shape_SFA(cute::make_shape(rows, 8, k, 1));
  auto const b = Scales::tile_atom_to_shape_SFB(cute::make_shape(8, rows, k, 1));
  int64_t wrong = 0;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < k; ++i) {
      int64_t const expected = scale_at(row, i / kScaleBlock, up(k / kScaleBlock, 4));
      wrong += int64_t(a(row, i, 0)) != expected || int64_t(b(row, i, 0)) != expected;
    }
  }
  wrong += int64_t(cute::cosize(a)) != scale_bytes(rows, k);
  std::printf("{\"kind\": \"scales\", \"rows\": %d, \"k\": %d, \"wrong\": %lld, \"ok\": %s}\n", rows, k,
              static_cast<long long>(wrong), wrong ? "false" : "true");
  return wrong != 0;
}

// The reference's decoding against CUTLASS's types, on every code.
int check_formats() {
  int wrong = 0;
  for (int code = 0; code < 256; ++code) {
    if (code % 128 == 127) continue;  // NaN
    wrong += double(float(cutlass::float_e4m3_t::bitcast(uint8_t(code)))) != e4m3(uint8_t(code));
    wrong += code < 128 && double(float(cutlass::float_ue4m3_t::bitcast(uint8_t(code)))) != e4m3(uint8_t(code));
    wrong += code < 16 && double(float(cutlass::float_e2m1_t::bitcast(uint8_t(code)))) != e2m1(uint8_t(code));
  }
  std::printf("{\"kind\": \"formats\", \"wrong\": %d, \"ok\": %s}\n", wrong, wrong ? "false" : "true");
  return wrong != 0;
}

}  // namespace

int check_sizes() {
  int wrong = check_formats() + check_scales(1, 64) + check_scales(250, 576) + check_scales(384, 32);
#define GB10_CHECK(name, ...) wrong += check_size<name##_kernel>(#name);
  GB10_GEMMS(GB10_CHECK)
#undef GB10_CHECK
  return wrong;
}

}  // namespace gb10::bench

#ifdef GB10_SIZES_ALONE
// What nvcc's start-up code calls of the run time. No CUDA is used here, and for this machine there is none.
extern "C" void** __cudaRegisterFatBinary(void*) { return nullptr; }
extern "C" void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}
extern "C" void __cudaRegisterFatBinaryEnd(void**) {}
extern "C" void __cudaUnregisterFatBinary(void**) {}

int main() { return gb10::bench::check_sizes() ? 1 : 0; }
#endif
