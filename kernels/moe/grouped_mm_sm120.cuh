// SPDX-License-Identifier: Apache-2.0
// Grouped FP8 GEMM of a mixture of experts for SM12x: out = (a x b^T) * scale of a's row * scale of b's row, one group
// per expert, one launch. Plain CUDA and CUTLASS: what calls it (torch's stable or old ABI, a test) brings the memory.
//
// CUTLASS must have the SM120 array mainloop for FP8: 4.6 or later, or 4.5 with patches/cutlass.

#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/operations.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/group_array_problem_shape.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"

#include "grouped_mm.h"

namespace gb10 {

// The pointers that the kernel wants, one per expert, at the head of the workspace.
template <class Out>
struct Pointers {
  cutlass::float_e4m3_t const** a;
  cutlass::float_e4m3_t const** b;
  Out** out;
  float const** a_scales;
  float const** b_scales;

  Pointers(void* workspace, int experts) {
    auto array = [&](int number) { return static_cast<void*>(static_cast<void**>(workspace) + number * experts); };
    a = static_cast<cutlass::float_e4m3_t const**>(array(0));
    b = static_cast<cutlass::float_e4m3_t const**>(array(1));
    out = static_cast<Out**>(array(2));
    a_scales = static_cast<float const**>(array(3));
    b_scales = static_cast<float const**>(array(4));
  }

  static size_t bytes(int experts) { return (size_t(5) * experts * sizeof(void*) + 127) / 128 * 128; }
};

template <class Out>
__global__ void point_to_experts(GroupedMm mm, Pointers<Out> to) {
  for (int expert = blockIdx.x * blockDim.x + threadIdx.x; expert < mm.experts; expert += gridDim.x * blockDim.x) {
    int64_t const first = mm.wide_offsets ? static_cast<int64_t const*>(mm.expert_offsets)[expert]
                                          : static_cast<int32_t const*>(mm.expert_offsets)[expert];
    to.a[expert] = static_cast<cutlass::float_e4m3_t const*>(mm.a) + first * mm.k;
    to.b[expert] = static_cast<cutlass::float_e4m3_t const*>(mm.b) + expert * mm.n * mm.k;
    to.out[expert] = static_cast<Out*>(mm.out) + first * mm.n;
    to.a_scales[expert] = mm.a_scales + (mm.scale_per_row ? first : 0);
    to.b_scales[expert] = mm.b_scales + (mm.scale_per_column ? expert * mm.n : expert);
  }
}

// One kernel: a tile, how its warps share the work, and whether a and b change places.
//
// Swapped, b's rows are the kernel's M and the tokens its N: a tile that is narrow in N wastes little on few tokens,
// and the result is written transposed, which is the same memory.
template <class Out_, class Tile_, class Schedule, class EpilogueSchedule, bool Swapped>
struct Kernel {
  using Out = Out_;
  using Tile = Tile_;
  using Element = cutlass::float_e4m3_t;
  using Arch = cutlass::arch::Sm120;
  using Class = cutlass::arch::OpClassTensorOp;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using Problem = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
  using OutLayout = cute::conditional_t<Swapped, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
  static constexpr bool kSwapped = Swapped;
  static constexpr int kAlignment = 16;
  static constexpr int kOutAlignment = 8;
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

  // A vector along M or N, or one value for all, per expert; a group's vector begins anywhere, so no wide loads.
  using ScaleM = cutlass::epilogue::fusion::Sm90ColBroadcast<
      0, Tile, float*, float, cute::Stride<bool, cute::_0, cute::_0>, 1, false>;
  using ScaleN = cutlass::epilogue::fusion::Sm90RowBroadcast<
      0, Tile, float*, float, cute::Stride<cute::_0, bool, cute::_0>, 1, false>;
  using Scaled = cutlass::epilogue::fusion::Sm90EVT<
      cutlass::epilogue::fusion::Sm90Compute<cutlass::multiplies, Out, float, kRound>,
      ScaleM,
      cutlass::epilogue::fusion::Sm90EVT<
          cutlass::epilogue::fusion::Sm90Compute<cutlass::multiplies, float, float, kRound>,
          ScaleN, cutlass::epilogue::fusion::Sm90AccFetch>>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      Arch, Class, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float,
      void, OutLayout*, kOutAlignment, Out, OutLayout*, kOutAlignment, EpilogueSchedule, Scaled>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Arch, Class, Element, cutlass::layout::RowMajor*, kAlignment, Element, cutlass::layout::ColumnMajor*, kAlignment,
      float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      Schedule>::CollectiveOp;
  using Gemm = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Gemm>;

  static_assert(sizeof(typename Gemm::SharedStorage) <= 101376, "SM12x has 101,376 bytes of shared memory per block");

  static typename Device::Arguments arguments(GroupedMm const& mm, Pointers<Out> const& at) {
    using Strides = typename Mainloop::InternalStrideA;
    using OutStrides = typename Epilogue::InternalStrideD;
    static_assert(sizeof(Strides) == 8 && sizeof(OutStrides) == 8, "one int64 per expert");
    auto* a_strides = static_cast<Strides*>(const_cast<void*>(mm.a_strides));
    auto* b_strides = static_cast<Strides*>(const_cast<void*>(mm.b_strides));
    auto* out_strides = static_cast<OutStrides*>(const_cast<void*>(mm.out_strides));
    auto* sizes = static_cast<typename Problem::UnderlyingProblemShape*>(const_cast<void*>(mm.problem_sizes));
    typename Scaled::Arguments scales{
        {Swapped ? at.b_scales : at.a_scales, 0.f, {Swapped ? mm.scale_per_column : mm.scale_per_row, {}, {}}},
        {{Swapped ? at.a_scales : at.b_scales, 0.f, {{}, Swapped ? mm.scale_per_row : mm.scale_per_column, {}}}, {}, {}},
        {}};
    cutlass::KernelHardwareInfo hardware;
    hardware.sm_count = mm.sm_count;
    return {cutlass::gemm::GemmUniversalMode::kGrouped,
            {mm.experts, sizes, nullptr},
            {Swapped ? at.b : at.a, Swapped ? b_strides : a_strides, Swapped ? at.a : at.b, Swapped ? a_strides : b_strides},
            {scales, nullptr, out_strides, at.out, out_strides},
            hardware};
  }
};

template <class K>
size_t workspace_bytes(GroupedMm const& mm) {
  Pointers<typename K::Out> at(nullptr, mm.experts);
  return at.bytes(mm.experts) + K::Device::get_workspace_size(K::arguments(mm, at));
}

template <class K>
cutlass::Status run(GroupedMm const& mm, void* workspace, cudaStream_t stream) {
  Pointers<typename K::Out> at(workspace, mm.experts);
  point_to_experts<<<1, 256, 0, stream>>>(mm, at);
  typename K::Device gemm;
  auto arguments = K::arguments(mm, at);
  auto* rest = static_cast<uint8_t*>(workspace) + at.bytes(mm.experts);
  cutlass::Status status = gemm.can_implement(arguments);
  return status == cutlass::Status::kSuccess ? gemm.run(arguments, rest, stream) : status;
}

using Cooperative = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperativeSm120<2>;
using Pingpong = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpongSm120<2>;
using CooperativeStore = cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative;
using PingpongStore = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;

template <class Out, int M, int N, int K, bool Swapped = false>
using CooperativeTile =
    Kernel<Out, cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>, Cooperative, CooperativeStore, Swapped>;

template <class Out, int M, int N, int K, bool Swapped = false>
using PingpongTile =
    Kernel<Out, cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>, Pingpong, PingpongStore, Swapped>;

}  // namespace gb10
