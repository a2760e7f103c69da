// Compiles and runs the kernels of docs/language/shapes.md unchanged.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/page/page.h"

namespace tegula::page::shapes_test {
namespace {

class Shapes : public Page {};

TEST_P(Shapes, PairsAreTurned) {
#include "shapes_1.inc"
  const Tensor x = Tensor::normal({10, 64}, DType::f32, 0, 1, 1, device()),
               c = Tensor::normal({10, 32}, DType::f32, 0, 1, 2, device()),
               s = Tensor::normal({10, 32}, DType::f32, 0, 1, 3, device()),
               y = empty_of({10, 64}, DType::f32);
  rope(x, c, s, y);
  const auto in = x.to_doubles(), cosine = c.to_doubles(), sine = s.to_doubles(),
             out = y.to_doubles();
  for (std::size_t i = 0; i < cosine.size(); ++i) {
    EXPECT_NEAR(out[2 * i], in[2 * i] * cosine[i] - in[2 * i + 1] * sine[i], 1e-5);
    EXPECT_NEAR(out[2 * i + 1], in[2 * i] * sine[i] + in[2 * i + 1] * cosine[i], 1e-5);
  }
}

TEST_P(Shapes, ElementsByAnIndex) {
#include "shapes_2.inc"
  const Tensor x = Tensor::uniform({5, 100}, DType::f32, 0, 100, 1, device()),
               best = empty_of({5, 2}, DType::f32), counts = empty_of({5, 10}, DType::i32);
  second_best(x, best, counts);
  const auto in = x.to_doubles(), two = best.to_doubles(), tens = counts.to_doubles();
  for (std::ptrdiff_t r = 0; r < 5; ++r) {
    std::vector<double> row(in.begin() + r * 100, in.begin() + (r + 1) * 100), want(10);
    for (const double v : row) ++want[static_cast<std::size_t>(v) / 10];
    std::ranges::sort(row, std::greater());
    EXPECT_EQ(two[static_cast<std::size_t>(2 * r)], row[0]);
    EXPECT_EQ(two[static_cast<std::size_t>(2 * r + 1)], row[1]);
    for (std::ptrdiff_t i = 0; i < 10; ++i)
      EXPECT_EQ(tens[static_cast<std::size_t>(r * 10 + i)], want[static_cast<std::size_t>(i)]);
  }
}

TEST_P(Shapes, ProductsSideBySide) {
#include "shapes_3.inc"
  const Tensor a = Tensor::integers({3, 40, 20}, DType::bf16, -3, 4, 1, device()),
               b = Tensor::integers({3, 20, 36}, DType::bf16, -3, 4, 2, device()),
               c = empty_of({3, 40, 36}, DType::f32);
  products(a, b, c);
  const auto left = a.to_doubles(), right = b.to_doubles(), out = c.to_doubles();
  for (std::size_t e = 0; e < 3; ++e)
    for (std::size_t i = 0; i < 40; ++i)
      for (std::size_t j = 0; j < 36; ++j) {
        double want = 0;
        for (std::size_t k = 0; k < 20; ++k)
          want += left[(e * 40 + i) * 20 + k] * right[(e * 20 + k) * 36 + j];
        ASSERT_EQ(out[(e * 40 + i) * 36 + j], want);
      }
}

INSTANTIATE_TEST_SUITE_P(Devices, Shapes, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::shapes_test
