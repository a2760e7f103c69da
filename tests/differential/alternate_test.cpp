// Tiles that two warpgroups of a program take in turn, on every device that is here. Operands are
// small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/gated_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_products.h"

namespace tegula {
namespace {

using test::expect_equal;
using test::product;

struct Tiles {
  int bm, bn, bk, stages = 0;
};

class Alternate : public test::OnDevice {
 protected:
  template <class T, class O>
  void check_shapes(Tiles t, bool b_transposed);
  /// Nothing is compiled for the cpu.
  template <class Kernel, class... Config>
  void expect_alternating(const Kernel& kernel, const Config&... config) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = kernel.explain(config...);
    EXPECT_NE(said.find("alternate=1"), std::string::npos) << said;
    EXPECT_EQ(said.find("do not alternate"), std::string::npos) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Alternate, testing::ValuesIn(test::devices()), test::device_name);

/// The eight-line kernel.
template <class T, class O>
auto matmul_of(Tiles t) {
  return kernel("in_turn", [=](In<T, 2> A, In<T, 2> B, Out<O, 2> C) {
    for (auto [m, n] : grid(C, t.bm, t.bn, l2_group(8), alternate(true))) {
      auto acc = zeros<f32>(t.bm, t.bn);
      for (auto k : steps(A.cols(), t.bk).stages(t.stages)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// One tile, fewer than the simulator has CTAs, odd and even numbers of several a program, ragged
/// edges, sums of no steps, fewer than a ring has slots, as many, and more.
const Shape kShapes[] = {{128, 128, 64},  {64, 32, 512},   {256, 256, 256}, {384, 128, 72},
                         {264, 520, 136}, {648, 264, 456}, {640, 512, 0},   {1160, 520, 328}};

template <class T, class O>
void Alternate::check_shapes(Tiles t, bool b_transposed) {
  const auto kernel = matmul_of<T, O>(t);
  for (const auto& [m, n, k] : kShapes) {
    if (sizeof(T) == 1 && k % 16 != 0) continue;
    SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
    const Tensor A = integers({m, k}, dtype_of<T>, 1),
                 B = integers({k, n}, dtype_of<T>, 2, b_transposed), C = empty({m, n}, dtype_of<O>);
    kernel(stream(), A, B, C);
    expect_equal(C, product(A, B));
    if (k % 64 == 0 && k > 0) expect_alternating(kernel);  // rows of no elements have no box
  }
}

TEST_P(Alternate, Square) {
  check_shapes<bf16, f32>({128, 128, 64}, false);
  check_shapes<bf16, bf16>({128, 128, 64}, true);
}
TEST_P(Alternate, Wide) {
  check_shapes<f16, f16>({64, 256, 64}, true);
  check_shapes<bf16, f32>({64, 192, 32}, false);
}
TEST_P(Alternate, Tall) { check_shapes<bf16, f32>({256, 64, 64}, false); }
TEST_P(Alternate, EightBits) { check_shapes<f8e4m3, bf16>({128, 128, 128}, true); }
TEST_P(Alternate, FewSlots) { check_shapes<bf16, f32>({128, 64, 64, 2}, false); }

}  // namespace
}  // namespace tegula
