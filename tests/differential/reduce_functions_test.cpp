// Functions given to reduce: branches become selects, and captured scalars, math and several tiles
// work alike on every device.
#include <gtest/gtest.h>

#include <algorithm>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::reduce_functions_test {
namespace {

class ReduceFunctions : public testing::TestWithParam<Device> {
 protected:
  /// The fold of each row of [4, 64].
  template <class F>
  std::vector<double> folded(const Tensor& x, F combine) const {
    const auto k = kernel("fold", [combine](In<f32, 2> in, Out<f32, 1> y) {
      for (auto r : grid(y, 1)) y(r) = reduce(in(r, slice(0, 64)), 0, combine);
    });
    const Tensor y = Tensor::empty({4}, DType::f32, GetParam());
    k(x, y);
    return y.to_doubles();
  }
  Tensor numbers() const { return Tensor::integers({4, 64}, DType::f32, -100, 100, 3, GetParam()); }
  static double row_max(const std::vector<double>& x, std::size_t row) {
    return *std::max_element(x.begin() + row * 64, x.begin() + row * 64 + 64);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ReduceFunctions, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(ReduceFunctions, ABranchChooses) {
  const Tensor x = numbers();
  const auto y = folded(x, [](Tile a, Tile b) {
    Tile r = a;
    if_(b > a, [&] { r = b; });
    return r;
  });
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(y[i], row_max(x.to_doubles(), i)) << i;
}

TEST_P(ReduceFunctions, BranchesInBranches) {
  // The number of the larger magnitude; of two alike the positive one.
  const Tensor x = numbers();
  const auto y = folded(x, [](Tile a, Tile b) {
    Tile r = a;
    if_(
        abs(a) == abs(b), [&] { r = max(a, b); },
        [&] {
          const Tile other = b * 1.0f;
          if_(abs(b) > abs(a), [&] { r = other; });
        });
    return r;
  });
  const auto in = x.to_doubles();
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = in.begin() + static_cast<std::ptrdiff_t>(i * 64);
    const double want = *std::max_element(row, row + 64, [](double a, double b) {
      return std::pair(std::abs(a), a) < std::pair(std::abs(b), b);
    });
    EXPECT_EQ(y[i], want) << i;
  }
}

TEST_P(ReduceFunctions, ACapturedScalarIsUniform) {
  const auto k = kernel("fold", [](In<f32, 2> in, Scalar<f32> bound, Out<f32, 1> y) {
    for (auto r : grid(y, 1)) {
      const Tile limit = bound * 2.0f;
      y(r) = reduce(in(r, slice(0, 64)), 0, [&](Tile a, Tile b) { return min(max(a, b), limit); });
    }
  });
  const Tensor x = numbers(), y = Tensor::empty({4}, DType::f32, GetParam());
  k(x, 25, y);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(y.to_doubles()[i], std::min(row_max(x.to_doubles(), i), 50.0)) << i;
}

}  // namespace
}  // namespace tegula::reduce_functions_test
