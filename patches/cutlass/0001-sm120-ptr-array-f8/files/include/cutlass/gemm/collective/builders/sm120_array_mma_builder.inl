// SPDX-License-Identifier: Apache-2.0
// The mainloop of a grouped or pointer-array GEMM for SM12x: what the dense builder chooses for the same tile, with the
// array's producer and as many stages as fit beside everything else that the kernel keeps in shared memory.

#pragma once

#include "cutlass/gemm/collective/builders/sm120_common.inl"

namespace cutlass::gemm::collective {

namespace detail {

// What the array kernel layer keeps besides the operands' stages and the epilogue's tensors: two descriptors of the
// operands and up to two of the epilogue (128 B each), the group scheduler's 8 responses and barriers, the epilogue's
// and the load order's barriers, and the 1024 B alignment of the operands.
constexpr int Sm120ArrayKernelBytes = 2048;

template <class BuilderScheduleTag>
constexpr bool sm120_is_plain_array_schedule_v =
    cute::is_same_v<BuilderScheduleTag, KernelPtrArrayTmaWarpSpecializedCooperative> ||
    cute::is_same_v<BuilderScheduleTag, KernelPtrArrayTmaWarpSpecializedPingpong> ||
    cute::is_same_v<BuilderScheduleTag, KernelPtrArrayTmaWarpSpecializedCooperativeSm120<2>> ||
    cute::is_same_v<BuilderScheduleTag, KernelPtrArrayTmaWarpSpecializedPingpongSm120<2>>;

} // namespace detail

template <
  class ElementA,
  class GmemLayoutATag,
  int AlignmentA,
  class ElementB,
  class GmemLayoutBTag,
  int AlignmentB,
  class ElementAccumulator,
  class TileShape_MNK,
  class ClusterShape_MNK,
  class StageCountType,
  class BuilderScheduleTag
>
struct CollectiveBuilder<
    arch::Sm120, arch::OpClassTensorOp,
    ElementA, GmemLayoutATag, AlignmentA, ElementB, GmemLayoutBTag, AlignmentB,
    ElementAccumulator, TileShape_MNK, ClusterShape_MNK, StageCountType, BuilderScheduleTag,
    cute::enable_if_t<
      not cute::is_tuple_v<ElementA> && not cute::is_tuple_v<ElementB> &&
      not cute::is_tuple_v<GmemLayoutATag> && not cute::is_tuple_v<GmemLayoutBTag> &&
      detail::sm120_is_plain_array_schedule_v<BuilderScheduleTag>>>
{
  static constexpr bool IsCooperative = cute::is_base_of_v<KernelPtrArrayTmaWarpSpecializedCooperative, BuilderScheduleTag>;
  static constexpr int SchedulerPipelineStageCount = 2;

  // The same tile without an array: types, layouts and copies are its own.
  using Dense = typename CollectiveBuilder<
      arch::Sm120, arch::OpClassTensorOp,
      ElementA, cute::remove_pointer_t<GmemLayoutATag>, AlignmentA,
      ElementB, cute::remove_pointer_t<GmemLayoutBTag>, AlignmentB,
      ElementAccumulator, TileShape_MNK, ClusterShape_MNK, StageCount<2>,
      cute::conditional_t<IsCooperative, KernelTmaWarpSpecializedCooperative, KernelTmaWarpSpecializedPingpong>
    >::CollectiveOp;

  static constexpr int PipelineStages = detail::sm100_compute_stage_count_or_override<
      detail::sm120_smem_capacity_bytes - detail::Sm120ArrayKernelBytes,
      typename Dense::SmemAllocTypeA, typename Dense::SmemAllocTypeB, TileShape_MNK,
      typename Dense::PipelineStorage>(StageCountType{});

  using Schedule = cute::conditional_t<IsCooperative,
      KernelPtrArrayTmaWarpSpecializedCooperativeSm120<SchedulerPipelineStageCount>,
      KernelPtrArrayTmaWarpSpecializedPingpongSm120<SchedulerPipelineStageCount>>;

  using CollectiveOp = CollectiveMma<
      MainloopSm120ArrayTmaWarpSpecialized<PipelineStages, SchedulerPipelineStageCount, ClusterShape_MNK, Schedule>,
      TileShape_MNK,
      ElementA, TagToStrideA_t<GmemLayoutATag>,
      ElementB, TagToStrideB_t<GmemLayoutBTag>,
      typename Dense::TiledMma,
      typename Dense::GmemTiledCopyA, typename Dense::SmemLayoutAtomA, typename Dense::SmemCopyAtomA, cute::identity,
      typename Dense::GmemTiledCopyB, typename Dense::SmemLayoutAtomB, typename Dense::SmemCopyAtomB, cute::identity>;
};

} // namespace cutlass::gemm::collective
