// Shared memory of the NVFP4 grouped GEMMs for 12.x as FlashInfer makes them, against the 101,376 bytes of a block.
// -DFINALIZE adds the fused epilogue, -DSMALL the narrow tiles; -DDESCRIPTOR=Mx4 -DTILE_K=64 compiles descriptors only.
#include <cstdio>
#include <type_traits>
#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/operations.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/group_array_problem_shape.hpp"
#ifdef FINALIZE
#include "cutlass_extensions/epilogue/fusion/sm90_visitor_scatter.hpp"
#endif
using namespace cute;
using Row = cutlass::layout::RowMajor;
using Col = cutlass::layout::ColumnMajor;
using Bf16 = cutlass::bfloat16_t;
using Nv4 = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
using Mx4 = cutlass::mx_float4_t<cutlass::float_e2m1_t>;
using Mx8 = cutlass::mx_float8_t<cutlass::float_e4m3_t>;
using Problem = cutlass::gemm::GroupProblemShape<Shape<int64_t, int64_t, int64_t>>;
using Cluster = Shape<_1, _1, _1>;

template <class A, class B, class Tile, bool Finalize, bool Swap>
struct Grouped {
  static constexpr int AlignA = std::is_same_v<A, Mx8> ? 16 : (std::is_same_v<B, Mx8> ? 128 : 32);
  static constexpr int AlignB = std::is_same_v<B, Mx8> ? 16 : (std::is_same_v<A, Mx8> ? 128 : 32);
  static constexpr int AlignC = (std::is_same_v<A, Mx8> || std::is_same_v<B, Mx8>) ? 16 : 32;
  using LayoutD = std::conditional_t<Swap, Col, Row>;
  template <class ElementD, class... Fusion>
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Bf16, LayoutD*, AlignC, ElementD, LayoutD*, 8,
      cutlass::epilogue::TmaWarpSpecialized, Fusion...>::CollectiveOp;
  static auto epilogue() {
#ifdef FINALIZE
    if constexpr (Finalize && Swap)
      return type_identity<Epilogue<void, cutlass::epilogue::fusion::ScaledAccPerRowBiasPerColScaleScatter<LayoutD, Bf16, float, Bf16, float>>>{};
    else if constexpr (Finalize)
      return type_identity<Epilogue<void, cutlass::epilogue::fusion::ScaledAccPerColBiasPerRowScaleScatter<LayoutD, Bf16, float, Bf16, float>>>{};
    else
#endif
      return type_identity<Epilogue<Bf16>>{};
  }
  template <class T> struct type_identity { using type = T; };
  using CollectiveEpilogue = typename decltype(epilogue())::type;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, A, Row*, AlignA, B, Col*, AlignB, float, Tile,
      Cluster, cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename CollectiveEpilogue::SharedStorage))>,
      cutlass::gemm::collective::KernelScheduleAuto>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, CollectiveEpilogue, void, void>;
};

template <class A, class B, int M, int N, int K, bool Finalize, bool Swap>
void show(char const* name) {
  using G = Grouped<A, B, Shape<Int<M>, Int<N>, Int<K>>, Finalize, Swap>;
  int bytes = int(G::Kernel::SharedStorageSize);
  std::printf("%s %3dx%3dx%3d %-8s swap=%d stages=%d bytes=%d %s\n", name, M, N, K, Finalize ? "finalize" : "none", Swap,
              int(G::Mainloop::DispatchPolicy::Stages), bytes, bytes > 101376 ? "TOO MUCH" : "");
}
template <class A, class B, int M, int N, int K>
void all(char const* name) {
  show<A, B, M, N, K, false, false>(name);
  show<A, B, M, N, K, false, true>(name);
#ifdef FINALIZE
  show<A, B, M, N, K, true, false>(name);
  show<A, B, M, N, K, true, true>(name);
#endif
}
int main() {
#ifdef DESCRIPTOR  // instantiates make_tma for A, B and both scale factors
  using G = Grouped<DESCRIPTOR, DESCRIPTOR, Shape<_128, _128, Int<TILE_K>>, false, false>;
  typename G::Mainloop::Arguments arguments{};
  Problem problem{};
  (void)G::Mainloop::to_underlying_arguments(problem, arguments, nullptr);
  std::printf("a descriptor for K=%d can be made\n", TILE_K);
#else
  all<Nv4, Nv4, 128, 128, 128>("nvfp4");
  all<Nv4, Nv4, 128, 128, 256>("nvfp4");
  all<Nv4, Nv4, 256, 128, 128>("nvfp4");
  all<Nv4, Nv4, 128, 256, 128>("nvfp4");
#ifdef SMALL
  all<Nv4, Nv4, 128, 32, 128>("nvfp4");
  all<Nv4, Nv4, 128, 32, 256>("nvfp4");
  all<Nv4, Nv4, 128, 64, 128>("nvfp4");
  all<Nv4, Nv4, 128, 64, 256>("nvfp4");
#endif
#endif
}
