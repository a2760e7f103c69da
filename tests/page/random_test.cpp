// Compiles and runs the kernels of docs/language/random.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::random_test {
namespace {

class RandomPage : public Page {};

TEST_P(RandomPage, DropoutByThePlaceOfAnElement) {
#include "random_1.inc"
  const Tensor x = ones_of({10, 300}, DType::bf16), y = empty_of({10, 300}, DType::bf16),
               z = empty_of({10, 300}, DType::bf16);
  dropped(x, 7, y);
  dropped(x, 8, z);
  const auto a = y.to_doubles(), b = z.to_doubles();
  EXPECT_NEAR(std::count(a.begin(), a.end(), 0.0), 300, 5 * std::sqrt(270));
  EXPECT_EQ(static_cast<double>(bf16(1 / 0.9f)), *std::max_element(a.begin(), a.end()));
  EXPECT_NE(a, b);
}

TEST_P(RandomPage, SmallStepsAddUp) {
#include "random_2.inc"
  // Steps of 1/64 of the distance to the next bf16 number: rounded to nearest, they have no effect.
  const Tensor w = ones_of({2048}, DType::bf16),
               step = Tensor::full({2048}, 0x1p-14, DType::f32, device());
  for (int i = 0; i < 8; ++i) updated(w, step, i);
  const auto out = w.to_doubles();
  const double mean = std::accumulate(out.begin(), out.end(), 0.0) / 2048;
  EXPECT_NEAR(mean, 1 - 8 * 0x1p-14, 5 * 0x1p-8 * std::sqrt(8.0 / 64 / 2048));
  EXPECT_LT(mean, 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomPage, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::random_test
