// SPDX-License-Identifier: Apache-2.0
// Grouped and pointer-array GEMM mainloop for SM12x: 8-bit (and narrower) operands, both K-major, loaded by TMA through
// one descriptor per operand and multiprocessor that is rewritten when a block moves on to another group.
//
// Only the producer differs from the dense mainloop (sm120_mma_tma.hpp): tiles, shared memory, the register pipeline
// and the MMA are inherited. The kernel layer is the array one of SM90.

#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/cuda_host_adapter.hpp"
#include "cutlass/gemm/collective/sm120_mma_tma.hpp"
#include "cutlass/gemm/dispatch_policy.hpp"
#include "cute/arch/copy_sm90_desc.hpp"
#include "cute/tensor.hpp"

namespace cutlass::gemm::collective {

template <
  int Stages,
  int SchedulerStages,
  class ClusterShape,
  class Schedule,
  class TileShape_,
  class ElementA_,
  class StrideA_,
  class ElementB_,
  class StrideB_,
  class TiledMma_,
  class GmemTiledCopyA_,
  class SmemLayoutAtomA_,
  class SmemCopyAtomA_,
  class TransformA_,
  class GmemTiledCopyB_,
  class SmemLayoutAtomB_,
  class SmemCopyAtomB_,
  class TransformB_>
struct CollectiveMma<
    MainloopSm120ArrayTmaWarpSpecialized<Stages, SchedulerStages, ClusterShape, Schedule>,
    TileShape_, ElementA_, StrideA_, ElementB_, StrideB_, TiledMma_,
    GmemTiledCopyA_, SmemLayoutAtomA_, SmemCopyAtomA_, TransformA_,
    GmemTiledCopyB_, SmemLayoutAtomB_, SmemCopyAtomB_, TransformB_>
  : CollectiveMma<
      MainloopSm120TmaWarpSpecialized<Stages, SchedulerStages, ClusterShape, Schedule>,
      TileShape_, ElementA_, cute::remove_pointer_t<StrideA_>, ElementB_, cute::remove_pointer_t<StrideB_>, TiledMma_,
      GmemTiledCopyA_, SmemLayoutAtomA_, SmemCopyAtomA_, TransformA_,
      GmemTiledCopyB_, SmemLayoutAtomB_, SmemCopyAtomB_, TransformB_>
{
  using Dense = CollectiveMma<
      MainloopSm120TmaWarpSpecialized<Stages, SchedulerStages, ClusterShape, Schedule>,
      TileShape_, ElementA_, cute::remove_pointer_t<StrideA_>, ElementB_, cute::remove_pointer_t<StrideB_>, TiledMma_,
      GmemTiledCopyA_, SmemLayoutAtomA_, SmemCopyAtomA_, TransformA_,
      GmemTiledCopyB_, SmemLayoutAtomB_, SmemCopyAtomB_, TransformB_>;

  using DispatchPolicy = MainloopSm120ArrayTmaWarpSpecialized<Stages, SchedulerStages, ClusterShape, Schedule>;
  using ElementA = ElementA_;
  using ElementB = ElementB_;
  using StrideA = StrideA_;
  using StrideB = StrideB_;
  using InternalStrideA = cute::remove_pointer_t<StrideA>;
  using InternalStrideB = cute::remove_pointer_t<StrideB>;
  using TileShape = TileShape_;
  using typename Dense::MainloopPipeline;
  using typename Dense::PipelineState;
  using typename Dense::SmemLayoutA;
  using typename Dense::SmemLayoutB;
  using typename Dense::TensorStorage;
  using typename Dense::PipelineStorage;
  using typename Dense::TmaInternalElementA;
  using typename Dense::TmaInternalElementB;

  static constexpr bool IsGrouped = !cute::is_same_v<InternalStrideA, StrideA>;

  static_assert(cute::size(ClusterShape{}) == 1, "SM12x has no multicast: the cluster must be 1x1x1.");
  static_assert(IsGrouped == !cute::is_same_v<InternalStrideB, StrideB>, "A and B must both be grouped, or neither.");
  static_assert(cute::is_same_v<GmemTiledCopyA_, cute::SM90_TMA_LOAD> && cute::is_same_v<GmemTiledCopyB_, cute::SM90_TMA_LOAD>,
                "A and B are loaded by TMA without multicast.");

  struct TensorMapStorage : cute::aligned_struct<128, cute::_0> {
    cute::TmaDescriptor smem_tensormap_A;
    cute::TmaDescriptor smem_tensormap_B;
  };

  struct SharedStorage : Dense::SharedStorage {
    TensorMapStorage tensormaps;
  };

  // One pointer per group; a grouped GEMM also has one stride per group.
  struct Arguments {
    ElementA const** ptr_A{nullptr};
    StrideA dA{};
    ElementB const** ptr_B{nullptr};
    StrideB dB{};
  };

  struct Params : Dense::Params {
    cute::TmaDescriptor* tensormaps{nullptr};  // A of every multiprocessor, then B of every multiprocessor
    ElementA const** ptr_A{nullptr};
    StrideA dA{};
    ElementB const** ptr_B{nullptr};
    StrideB dB{};
  };

  // The descriptors that are made here hold what does not change: types, box, swizzle. What a group has of its own
  // (address, extents, strides) is written on the device before the first load; of a grouped GEMM the host knows none.
  template <class ProblemShape>
  static Params
  to_underlying_arguments(ProblemShape const& problem_shape, Arguments const& args, void* workspace) {
    auto [M, N, K] = cute::take<0,3>(initial_shape(problem_shape));
    typename Dense::Arguments dense{nullptr, initial_stride(args.dA, M, K), nullptr, initial_stride(args.dB, N, K)};
    auto mnkl = cute::make_shape(M, N, K, int32_t(1));
    return {Dense::to_underlying_arguments(mnkl, dense, nullptr),
            reinterpret_cast<cute::TmaDescriptor*>(workspace), args.ptr_A, args.dA, args.ptr_B, args.dB};
  }

  template <class ProblemShape>
  static size_t
  get_workspace_size(ProblemShape const&, Arguments const&, int sm_count) {
    return size_t(2) * sm_count * sizeof(cute::TmaDescriptor);
  }

  template <class ProblemShape>
  static cutlass::Status
  initialize_workspace(ProblemShape const&, Arguments const&, void*, cudaStream_t, CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }

  // Extents are checked where the host knows them; 16 B alignment of the rows is what TMA asks for.
  template <class ProblemShape>
  static bool
  can_implement(ProblemShape const& problem_shapes, Arguments const&) {
    bool implementable = true;
    if (problem_shapes.is_host_problem_shape_available()) {
      for (int group = 0; group < problem_shapes.groups(); ++group) {
        implementable = implementable && Dense::can_implement(problem_shapes.get_host_problem_shape(group), {});
      }
    }
    return implementable;
  }

  // Coordinates carry no address and no extent: those of the first group serve all.
  template <class ProblemShape_MNKL>
  CUTLASS_DEVICE auto
  load_init(ProblemShape_MNKL const& problem_shape_MNKL, Params const& params) const {
    auto [M, N, K, L] = problem_shape_MNKL;
    return Dense::load_init(cute::make_shape(M, N, K, int32_t(1)), params);
  }

  template <class LoadInputs, class ProblemShape_MNKL>
  CUTLASS_DEVICE LoadInputs
  tensors_perform_update(LoadInputs const& load_inputs, Params const&, ProblemShape_MNKL const&, int32_t) {
    return load_inputs;
  }

  template <class LoadInputs, class TensorMaps, class BlockCoord, class KTileIterator>
  CUTLASS_DEVICE void
  load(
      Params const& params,
      MainloopPipeline pipeline,
      PipelineState write,
      LoadInputs const& load_inputs,
      TensorMaps const& tensormaps,
      BlockCoord const& blk_coord,
      KTileIterator k_tile, int k_tile_count,
      [[maybe_unused]] int thread_idx,
      [[maybe_unused]] uint32_t block_rank_in_cluster,
      TensorStorage& storage) {
    using namespace cute;
    if (!cute::elect_one_sync()) {
      return;
    }
    auto [m, n, k, l] = blk_coord;
    Tensor sA = make_tensor(make_smem_ptr(storage.smem_A.data()), SmemLayoutA{});                  // (BLK_M,BLK_K,PIPE)
    Tensor sB = make_tensor(make_smem_ptr(storage.smem_B.data()), SmemLayoutB{});                  // (BLK_N,BLK_K,PIPE)
    auto tma_a = params.tma_load_a.get_slice(_0{});
    auto tma_b = params.tma_load_b.get_slice(_0{});
    Tensor from_a = tma_a.partition_S(get<0>(load_inputs)(_,_,m,_,l));                          // (TMA,TMA_M,TMA_K,k)
    Tensor from_b = tma_b.partition_S(get<1>(load_inputs)(_,_,n,_,l));                          // (TMA,TMA_N,TMA_K,k)
    Tensor to_a = tma_a.partition_D(sA);                                                     // (TMA,TMA_M,TMA_K,PIPE)
    Tensor to_b = tma_b.partition_D(sB);                                                     // (TMA,TMA_N,TMA_K,PIPE)

    CUTLASS_PRAGMA_NO_UNROLL
    for (; k_tile_count > 0; --k_tile_count, ++k_tile, ++write) {
      pipeline.producer_acquire(write);
      auto* barrier = pipeline.producer_get_barrier(write);
      int const stage = write.index();
      copy(params.tma_load_a.with(get<0>(tensormaps), *barrier), from_a(_,_,_,*k_tile), to_a(_,_,_,stage));
      copy(params.tma_load_b.with(get<1>(tensormaps), *barrier), from_b(_,_,_,*k_tile), to_b(_,_,_,stage));
    }
  }

  // This block's two descriptors: copied to shared memory, where they are rewritten, and their places in the workspace.
  CUTLASS_DEVICE auto
  tensormaps_init(Params const& params, TensorMapStorage& shared, int32_t sm_count, int32_t sm_idx) {
    using namespace cute;
    if (cute::elect_one_sync()) {
      copy_words(*params.tma_load_a.get_tma_descriptor(), shared.smem_tensormap_A);
      copy_words(*params.tma_load_b.get_tma_descriptor(), shared.smem_tensormap_B);
    }
    __syncwarp();
    return cute::make_tuple(params.tensormaps + sm_idx, params.tensormaps + sm_count + sm_idx);
  }

  // One thread writes the address of a group's operands, and of a grouped GEMM their extents and strides.
  template <class TensorMaps, class ProblemShape_MNKL>
  CUTLASS_DEVICE void
  tensormaps_perform_update(
      TensorMapStorage& shared, Params const& params, TensorMaps const&,
      ProblemShape_MNKL const& problem_shape, int32_t group) {
    if (!cute::elect_one_sync()) {
      return;
    }
    cute::tma_descriptor_replace_addr_in_shared_mem(shared.smem_tensormap_A, params.ptr_A[group]);
    cute::tma_descriptor_replace_addr_in_shared_mem(shared.smem_tensormap_B, params.ptr_B[group]);
    if constexpr (IsGrouped) {
      auto [M, N, K, L] = problem_shape;
      replace_extents<TmaInternalElementA>(shared.smem_tensormap_A, params.tma_load_a, M, K, params.dA[group]);
      replace_extents<TmaInternalElementB>(shared.smem_tensormap_B, params.tma_load_b, N, K, params.dB[group]);
    }
  }

  // By a whole, converged warp.
  template <class TensorMaps>
  CUTLASS_DEVICE void
  tensormaps_cp_fence_release(TensorMapStorage& shared, TensorMaps const& tensormaps) {
    if (cute::elect_one_sync()) {
      cute::tma_desc_commit_group();
      cute::tma_desc_wait_group();
    }
    cute::tma_descriptor_cp_fence_release(cute::get<0>(tensormaps), shared.smem_tensormap_A);
    cute::tma_descriptor_cp_fence_release(cute::get<1>(tensormaps), shared.smem_tensormap_B);
  }

  template <class TensorMaps>
  CUTLASS_DEVICE void
  tensormaps_fence_acquire(TensorMaps const& tensormaps) {
    cute::tma_descriptor_fence_acquire(cute::get<0>(tensormaps));
    cute::tma_descriptor_fence_acquire(cute::get<1>(tensormaps));
  }

private:
  // A whole tile stands for the groups of a grouped GEMM; the batches of an array have one shape.
  template <class ProblemShape>
  static auto
  initial_shape(ProblemShape const& problem_shape) {
    using namespace cute;
    if constexpr (IsGrouped) {
      return make_shape(int32_t(size<0>(TileShape{})), int32_t(size<1>(TileShape{})), int32_t(size<2>(TileShape{})));
    } else {
      auto shape = problem_shape.get_host_problem_shape();
      return make_shape(int32_t(get<0>(shape)), int32_t(get<1>(shape)), int32_t(get<2>(shape)));
    }
  }

  template <class Stride>
  static auto
  initial_stride(Stride const& given, int32_t rows, int32_t columns) {
    using namespace cute;
    if constexpr (IsGrouped) {
      cute::remove_pointer_t<Stride> stride{};
      get<0>(stride) = columns;
      if constexpr (!is_static_v<remove_cvref_t<decltype(get<2>(stride))>>) {
        get<2>(stride) = int64_t(rows) * columns;
      }
      return stride;
    } else {
      return given;
    }
  }

  CUTLASS_DEVICE static void
  copy_words(cute::TmaDescriptor const& from, cute::TmaDescriptor& to) {
    CUTLASS_PRAGMA_UNROLL
    for (int word = 0; word < int(sizeof(from) / sizeof(cute::uint128_t)); ++word) {
      reinterpret_cast<cute::uint128_t*>(&to)[word] = reinterpret_cast<cute::uint128_t const*>(&from)[word];
    }
  }

  template <class Element, class TmaLoad, class Stride>
  CUTLASS_DEVICE static void
  replace_extents(cute::TmaDescriptor& map, TmaLoad const& tma, int32_t rows, int32_t columns, Stride const& stride) {
    using namespace cute;
    array<uint32_t, 5> extents = {1, 1, 1, 1, 1};
    array<uint64_t, 5> strides = {0, 0, 0, 0, 0};
    auto layout = make_layout(make_shape(rows, columns, int32_t(1)), stride);
    Tensor of_group = make_tensor(static_cast<Element const*>(nullptr), layout);
    cute::detail::fill_tma_gmem_shape_stride(tma, of_group, extents, strides);
    CUTLASS_PRAGMA_UNROLL
    for (int mode = 0; mode < 5; ++mode) {
      strides[mode] = strides[mode] * sizeof_bits_v<Element> / 8;
    }
    tma_descriptor_replace_dims_strides_in_shared_mem(map, extents, strides);
  }
};

} // namespace cutlass::gemm::collective
