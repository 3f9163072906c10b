// SPDX-License-Identifier: Apache-2.0
// What every unit holds: GB10_UNIT(name) defines the function that gemm.h declares. Overloads tell the families apart.

#pragma once

#include "cutlass/util/packed_stride.hpp"
#include "gemm_sm120.cuh"

namespace gb10::bench {

inline char const* said(cutlass::Status status) {
  return status == cutlass::Status::kSuccess ? nullptr : cutlass::cutlassGetStatusString(status);
}

// Initialised once: what is timed is the kernel alone. `held` is memory that the arguments point to.
template <class G>
Launch initialised(typename G::Device::Arguments const& arguments, std::vector<std::shared_ptr<void>> held) {
  auto gemm = std::make_shared<typename G::Device>();
  auto workspace = allocate(G::Device::get_workspace_size(arguments));
  cutlass::Status status = gemm->can_implement(arguments);
  if (status == cutlass::Status::kSuccess) status = gemm->initialize(arguments, workspace.get());
  return [gemm, status, workspace, held] {
    return status == cutlass::Status::kSuccess ? said(gemm->run()) : said(status);
  };
}

template <class Stride>
Stride packed(int rows, int columns) {
  return cutlass::make_cute_packed_stride(Stride{}, {rows, columns, 1});
}

template <class Element>
Element* at(void* start, int64_t elements) {
  return reinterpret_cast<Element*>(static_cast<uint8_t*>(start) + elements * cutlass::sizeof_bits<Element>::value / 8);
}

template <class Format, class Tile, class Schedule>
Launch prepare(Sm120Gemm<Format, Tile, Schedule, false>*, Problem const& p, Operands const& data) {
  using G = Sm120Gemm<Format, Tile, Schedule, false>;
  using Main = typename G::Mainloop;
  using Store = typename G::Epilogue;
  int const m = p.rows.at(0);
  typename G::Device::Arguments to{cutlass::gemm::GemmUniversalMode::kGemm, {m, p.n, p.k, 1}, {}, {}};
  to.mainloop.ptr_A = static_cast<decltype(to.mainloop.ptr_A)>(data.a);
  to.mainloop.ptr_B = static_cast<decltype(to.mainloop.ptr_B)>(data.b);
  to.mainloop.dA = packed<typename Main::StrideA>(m, p.k);
  to.mainloop.dB = packed<typename Main::StrideB>(p.n, p.k);
  if constexpr (G::kScaled) {
    auto const extents = cute::make_shape(m, p.n, p.k, 1);
    to.mainloop.ptr_SFA = static_cast<decltype(to.mainloop.ptr_SFA)>(data.a_scales);
    to.mainloop.ptr_SFB = static_cast<decltype(to.mainloop.ptr_SFB)>(data.b_scales);
    to.mainloop.layout_SFA = G::Scales::tile_atom_to_shape_SFA(extents);
    to.mainloop.layout_SFB = G::Scales::tile_atom_to_shape_SFB(extents);
  }
  to.epilogue = {{}, nullptr, packed<typename Store::StrideC>(m, p.n), static_cast<typename G::Out*>(data.out),
                 packed<typename Store::StrideD>(m, p.n)};
  to.hw_info.sm_count = data.sm_count;
  return initialised<G>(to, {});
}

template <class Tile, class Schedule>
Launch prepare(Sm120Gemm<Nvfp4, Tile, Schedule, true>*, Problem const& p, Operands const& data) {
  using G = Sm120Gemm<Nvfp4, Tile, Schedule, true>;
  using Main = typename G::Mainloop;
  using Store = typename G::Epilogue;
  using Element = typename Main::ElementA;
  using Scale = typename Main::ElementSF;
  std::vector<Element const*> a, b;
  std::vector<Scale const*> a_scales, b_scales;
  std::vector<typename G::Out*> out;
  std::vector<typename Main::InternalStrideA> a_strides;
  std::vector<typename Main::InternalStrideB> b_strides;
  std::vector<typename Main::InternalLayoutSFA> a_layouts;
  std::vector<typename Main::InternalLayoutSFB> b_layouts;
  std::vector<typename Store::InternalStrideD> out_strides;
  std::vector<typename G::Problems::UnderlyingProblemShape> sizes;
  int64_t first = 0, scaled = 0;
  for (int64_t group = 0; group < int64_t(p.rows.size()); ++group) {
    int const rows = p.rows[group];
    auto const extents = cute::make_shape(rows, p.n, p.k, 1);
    sizes.push_back({rows, p.n, p.k});
    a.push_back(at<Element>(data.a, first * p.k));
    b.push_back(at<Element>(data.b, group * p.n * p.k));
    a_scales.push_back(at<Scale>(data.a_scales, scaled));
    b_scales.push_back(at<Scale>(data.b_scales, group * scale_bytes(p.n, p.k)));
    out.push_back(at<typename G::Out>(data.out, first * p.n));
    a_strides.push_back(packed<typename Main::InternalStrideA>(rows, p.k));
    b_strides.push_back(packed<typename Main::InternalStrideB>(p.n, p.k));
    a_layouts.push_back(G::Scales::tile_atom_to_shape_SFA(extents));
    b_layouts.push_back(G::Scales::tile_atom_to_shape_SFB(extents));
    out_strides.push_back(packed<typename Store::InternalStrideD>(rows, p.n));
    first += rows;
    scaled += scale_bytes(rows, p.k);
  }
  std::vector<std::shared_ptr<void>> held;
  auto there = [&](auto const& values) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    held.push_back(upload(values));
    return static_cast<Value*>(held.back().get());
  };
  typename G::Device::Arguments to{cutlass::gemm::GemmUniversalMode::kGrouped, {int(sizes.size()), there(sizes), nullptr},
                                   {}, {}};
  to.mainloop = {there(a), there(a_strides), there(b), there(b_strides), there(a_scales), there(a_layouts),
                 there(b_scales), there(b_layouts)};
  auto* strides = there(out_strides);
  to.epilogue = {{}, nullptr, strides, there(out), strides};
  to.hw_info.sm_count = data.sm_count;
  return initialised<G>(to, held);
}

// kernels/moe's, as an engine calls it: with the kernel before it that makes the pointers. All scales are one.
template <class Out, class Tile, class Schedule, class Store>
Launch prepare(gb10::Kernel<Out, Tile, Schedule, Store, false>*, Problem const& p, Operands const& data) {
  using K = gb10::Kernel<Out, Tile, Schedule, Store, false>;
  size_t const experts = p.rows.size();
  std::vector<int64_t> offsets, in_strides(experts, p.k), out_strides(experts, p.n);
  std::vector<int> sizes;
  int64_t rows = 0;
  for (int here : p.rows) {
    offsets.push_back(rows);
    sizes.insert(sizes.end(), {here, p.n, p.k});
    rows += here;
  }
  std::vector<std::shared_ptr<void>> held{upload(offsets), upload(sizes), upload(in_strides), upload(out_strides),
                                          upload(std::vector<float>(experts, 1.f))};
  auto const* ones = static_cast<float const*>(held[4].get());
  gb10::GroupedMm const mm{data.out, data.a, data.b, ones, ones, held[0].get(), held[1].get(), held[2].get(),
                           held[2].get(), held[3].get(), rows, p.n, p.k, int(experts), true, false, false,
                           data.sm_count};
  auto workspace = allocate(gb10::workspace_bytes<K>(mm));
  return [mm, workspace, held] { return said(gb10::run<K>(mm, workspace.get(), nullptr)); };
}

}  // namespace gb10::bench

#define GB10_UNIT(name)                                                                          \
  namespace gb10::bench {                                                                        \
  Launch name(Problem const& p, Operands const& data) {                                          \
    return prepare(static_cast<name##_kernel*>(nullptr), p, data);                                \
  }                                                                                              \
  }
