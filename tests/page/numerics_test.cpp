// Compiles and runs the kernels of docs/language/numerics.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::numerics_test {
namespace {

class Numerics : public Page {};

TEST_P(Numerics, ANumberWinsAgainstNaN) {
#include "numerics_1.inc"
  const Tensor x = Tensor::from(std::vector<f32>{1, tegula::nan, 3}, {1, 3}, device()),
               y = empty_of({1, 3});
  extremes(x, y);
  const auto out = y.to_doubles();
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 2);
  EXPECT_TRUE(std::isnan(out[2]));
}

TEST_P(Numerics, ARowWithoutNumbers) {
#include "numerics_1.inc"
  for (const std::int64_t n : {3, 64, 96}) {
    const Tensor x = Tensor::full({1, n}, std::nan(""), DType::f32, device()), y = empty_of({1, 3});
    extremes(x, y);
    const auto out = y.to_doubles();
    EXPECT_EQ(out[0], -std::numeric_limits<double>::infinity()) << n;
    EXPECT_EQ(out[1], 0) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Numerics, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::numerics_test
