// Compiles and runs the kernels of docs/language/triton.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::triton_test {
namespace {

class Triton : public Page {
 protected:
  static Tensor normal_of(const Dims& shape, int seed) {
    return Tensor::normal(shape, DType::f32, 0, 1, seed, device());
  }
};

TEST_P(Triton, VectorAddition) {
#include "triton_1.inc"
#include "triton_5.inc"
  const Tensor x = iota_of({1500}), y = ones_of({1500}), z = empty_of({1500}),
               by = zeros_of({1500});
  add(x, y, z);
  add_by_address(x, y, by, 1500);
  const auto out = z.to_doubles();
  for (int i = 0; i < 1500; ++i) ASSERT_EQ(out[i], i + 1);
  EXPECT_EQ(by.to_doubles(), out);
}

TEST_P(Triton, Softmax) {
#include "triton_2.inc"
  const Tensor x = normal_of({5, 77}, 1), y = empty_of({5, 77});
  softmax(x, y);
  const auto out = y.to_doubles();
  for (int r = 0; r < 5; ++r)
    EXPECT_NEAR(std::accumulate(out.begin() + r * 77, out.begin() + (r + 1) * 77, 0.0), 1, 1e-5);
}

TEST_P(Triton, Matmul) {
#include "triton_3.inc"
  const Tensor a = Tensor::full({70, 100}, -1, DType::f16, device()),
               b = ones_of({100, 65}, DType::f16), c = empty_of({70, 65}, DType::f16);
  matmul(a, b, c);
  for (const double v : c.to_doubles()) ASSERT_EQ(v, -1);
}

TEST_P(Triton, LayerNorm) {
#include "triton_4.inc"
  const Tensor x = normal_of({4, 300}, 2), w = ones_of({300}), b = zeros_of({300}),
               y = empty_of({4, 300});
  layer_norm(x, w, b, y);
  const auto in = x.to_doubles(), out = y.to_doubles();
  for (int r = 0; r < 4; ++r) {
    const auto row = in.begin() + r * 300;
    const double mean = std::accumulate(row, row + 300, 0.0) / 300;
    double variance = 0;
    for (int c = 0; c < 300; ++c) variance += (row[c] - mean) * (row[c] - mean) / 300;
    for (int c = 0; c < 300; ++c)
      ASSERT_NEAR(out[r * 300 + c], (row[c] - mean) / std::sqrt(variance + 1e-5), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Triton, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::triton_test
