// What fill_tma_gmem_shape_stride makes of a basis with a zero stride (-DBROADCAST), and of one without.
#include "cute/tensor.hpp"
#include "cute/atom/copy_traits_sm90_tma.hpp"
#include <cstdio>
using namespace cute;
int main() {
  static float data[1];
  auto tensor = make_tensor(static_cast<float*>(data), make_shape(128, 64), make_stride(64, Int<1>{}));
  cute::array<uint64_t, 5> shape = {1, 1, 1, 1, 1}, stride = {0, 0, 0, 0, 0};
#ifdef BROADCAST
  auto basis = make_tuple(E<1>{}, Int<0>{}, E<0>{});
#else
  auto basis = make_tuple(E<1>{}, E<0>{});
#endif
  detail::fill_tma_gmem_shape_stride(tensor, basis, shape, stride);
  for (int i = 0; i < 4; ++i) std::printf("%d: shape %llu stride %llu\n", i, (unsigned long long)shape[i], (unsigned long long)stride[i]);
}
