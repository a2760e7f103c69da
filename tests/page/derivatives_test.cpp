// Compiles and runs the kernels of docs/language/derivatives.md.
#include "tests/page/page.h"

namespace tegula::page::derivatives_test {
namespace {

class DerivativesPage : public Page {};

TEST_P(DerivativesPage, OneDefinitionForBothPasses) {
#include "derivatives_1.inc"
  const Tensor x = Tensor::full({300}, 0.5, DType::f32, device()),
               dy = Tensor::full({300}, 2, DType::f32, device()), y = empty_of({300}, DType::f32),
               dx = empty_of({300}, DType::f32);
  forward(x, y);
  backward(x, dy, dx);
  const double t = std::tanh(0.5);
  EXPECT_NEAR(y.to_doubles()[299], 0.5 * t + 0.25, 1e-6);
  EXPECT_NEAR(dx.to_doubles()[299], 2 * (t + 0.5 * (1 - t * t) + 0.5), 1e-6);
}

TEST_P(DerivativesPage, StatedSlopes) {
#include "derivatives_2.inc"
  const Tensor x = Tensor::full({300}, 3, DType::f32, device()), dx = empty_of({300}, DType::f32);
  slopes(x, dx);
  EXPECT_EQ(dx.to_doubles()[299], -6);
}

TEST_P(DerivativesPage, SlopesThatAreExcludedDoNotReachTheResult) {
  const Tensor x = Tensor::zeros({256}, DType::f32, device()), dx = empty_of({256}, DType::f32);
  kernel("excluded", [](In<f32, 1> of, Out<f32, 1> slope) {
    for (auto i : grid(slope, 256)) {
      const Tile v = of(i);
      slope(i) = derivative(where(v > 0.0f, log(v), v), v, full<f32>(1, 256));
    }
  })(x, dx);
  EXPECT_EQ(dx.to_doubles()[255], 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, DerivativesPage, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::derivatives_test
