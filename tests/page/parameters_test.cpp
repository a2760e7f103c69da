// Compiles and runs the kernel of docs/language/parameters.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::parameters_test {
namespace {

class Parameters : public Page {};

TEST_P(Parameters, AStructExpandsToItsMembers) {
#include "parameters_1.inc"
  static_assert(std::is_same_v<decltype(affine), KernelOf<Operands, Out<f32, 2>, Options>>);
  const Tensor x = iota_of({20, 100}), bias = Tensor::full({100}, -10, DType::f32, device()),
               y = empty_of({20, 100});
  affine(x, bias, y, true, 0.5f);
  auto out = y.to_doubles();
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(out[i], std::max(0.5 * i - 10, 0.0));
  const auto named = affine.named("in.x[M, N]", "in.bias[N]", "y[M, N]", "is_clamped", "scale");
  named(x, Tensor(), y, true, 0.5f);
  out = y.to_doubles();
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(out[i], 0.5 * i);
  EXPECT_EQ(code_of([&] { named(x, empty_of({99}), y, true, 0.5f); }), "T0709");
}

INSTANTIATE_TEST_SUITE_P(Devices, Parameters, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::parameters_test
