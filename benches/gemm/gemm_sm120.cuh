// SPDX-License-Identifier: Apache-2.0
// The types of the kernels: plain CUTLASS for SM12x, TN, cluster 1x1x1, bf16 out. The grouped FP8 one is kernels/moe's.

#pragma once

#include "grouped_mm_sm120.cuh"

#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "gemm.h"

namespace gb10::bench {

struct Fp8 {
  using Pair = cutlass::float_e4m3_t;
  using Class = cutlass::arch::OpClassTensorOp;
  static constexpr int kAlignment = 16;
};

struct Nvfp4 {
  using Pair = cutlass::nv_float4_t<cutlass::float_e2m1_t>;  // the elements, and their scales in ue4m3
  using Class = cutlass::arch::OpClassBlockScaledTensorOp;
  static constexpr int kAlignment = 32;
};

struct Cooperative {
  using Dense = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
  using Grouped = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative;
  using GroupedStore = cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative;
};

struct Pingpong {
  using Dense = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
  using Grouped = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong;
  using GroupedStore = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;
};

// A grouped kernel takes an array of matrices, which CUTLASS says by a pointer to the layout.
template <class Format, class Tile, class Schedule, bool Grouped>
struct Sm120Gemm {
  static constexpr bool kScaled = std::is_same_v<Format, Nvfp4>;
  template <class Layout>
  using Of = std::conditional_t<Grouped, Layout*, Layout>;
  using Row = Of<cutlass::layout::RowMajor>;
  using Column = Of<cutlass::layout::ColumnMajor>;
  using Out = cutlass::bfloat16_t;
  using Arch = cutlass::arch::Sm120;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using Problems = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
  using Scales = cutlass::detail::Sm1xxBlockScaledConfig<kScaleBlock>;
  using Store = std::conditional_t<Grouped, typename Schedule::GroupedStore,
                                   cutlass::epilogue::collective::EpilogueScheduleAuto>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      Arch, typename Format::Class, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float,
      void, Row, 8, Out, Row, 8, Store>::CollectiveOp;
  using Stages = cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Arch, typename Format::Class, typename Format::Pair, Row, Format::kAlignment, typename Format::Pair, Column,
      Format::kAlignment, float, Tile, Cluster, Stages,
      std::conditional_t<Grouped, typename Schedule::Grouped, typename Schedule::Dense>>::CollectiveOp;
  using Gemm = cutlass::gemm::kernel::GemmUniversal<
      std::conditional_t<Grouped, Problems, cute::Shape<int, int, int, int>>, Mainloop, Epilogue>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Gemm>;
};

template <class Schedule, int M, int N, int K>
using DenseFp8 = Sm120Gemm<Fp8, cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>, Schedule, false>;
template <class Schedule, int M, int N, int K>
using DenseNvfp4 = Sm120Gemm<Nvfp4, cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>, Schedule, false>;
template <class Schedule, int M, int N, int K>
using GroupedNvfp4 = Sm120Gemm<Nvfp4, cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>, Schedule, true>;
template <class Schedule, int M, int N, int K>
using GroupedFp8 = gb10::CooperativeTile<cutlass::bfloat16_t, M, N, K>;

#define GB10_ALIAS(name, Family, Schedule, M, N, K) using name##_kernel = Family<Schedule, M, N, K>;
GB10_GEMMS(GB10_ALIAS)
#undef GB10_ALIAS

}  // namespace gb10::bench
