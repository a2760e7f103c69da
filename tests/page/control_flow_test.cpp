// Compiles and runs the kernels of docs/language/control-flow.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::control_flow_test {
namespace {

class ControlFlow : public Page {};

TEST_P(ControlFlow, ALoopCarriesItsVariables) {
#include "control_flow_1.inc"
  const Tensor a = ones_of({70, 100}, DType::f16), b = ones_of({100, 65}, DType::f16),
               c = empty_of({70, 65}, DType::f16);
  matmul(a, b, c);
  for (const double v : c.to_doubles()) ASSERT_EQ(v, 100);
}

TEST_P(ControlFlow, HiddenStateIsAnError) {
#include "control_flow_2.inc"
  EXPECT_EQ(code_of([&] { frozen(ones_of({64}), empty_of({64})); }), "T0301");
}

TEST_P(ControlFlow, ALoopOfCppIsUnrolled) {
#include "control_flow_3.inc"
  const Tensor y = empty_of({200});
  smoothed(ones_of({200}), y);
  const auto out = y.to_doubles();
  EXPECT_NEAR(out.front(), 2.0 / 3, 1e-6);
  EXPECT_NEAR(out.back(), 2.0 / 3, 1e-6);
  EXPECT_EQ(out[100], 1);
}

TEST_P(ControlFlow, BranchesInAnOpenLoop) {
#include "control_flow_4.inc"
  const Tensor x = Tensor::from(std::vector<std::int32_t>{1, 2, 7, 27}, {4}, device()),
               count = empty_of({4}, DType::i32);
  steps_to_one(x, count);
  EXPECT_EQ(count.to_doubles(), (std::vector<double>{0, 1, 16, 111}));
}

TEST_P(ControlFlow, ALoopIsLeft) {
#include "control_flow_5.inc"
  const Tensor x = zeros_of({3, 200}), at = Tensor::full({3}, -1, DType::i32, device());
  auto values = x.to_vector<f32>();
  values[200 + 130] = 2, values[400 + 5] = 3, values[400 + 170] = 3;
  first_above(Tensor::from(values, {3, 200}, device()), 1, at);
  EXPECT_EQ(at.to_doubles(), (std::vector<double>{-1, 130, 5}));
  first_above(Tensor::full({3, 200}, 9, DType::f32, device()), 1, at);
  EXPECT_EQ(at.to_doubles(), (std::vector<double>{0, 130, 5}));
}

TEST_P(ControlFlow, ElementsLoopByThemselves) {
#include "control_flow_6.inc"
  const Tensor x = Tensor::from(std::vector<std::int32_t>{1, 2, 7, 27}, {4}, device()),
               count = empty_of({4}, DType::i32);
  collatz(x, count);
  EXPECT_EQ(count.to_doubles(), (std::vector<double>{0, 1, 16, 111}));
}

TEST_P(ControlFlow, AFoldMayBranch) {
  const auto largest = kernel("largest", [](In<f32, 2> x, Out<f32, 1> y) {
    for (auto r : grid(y, 1))
      y(r) = reduce(x(r, all), 0, [](Tile a, Tile b) {
        Tile out = a;
        if_(abs(b) > abs(a), [&] { out = b; });
        return out;
      });
  });
  const Tensor x = Tensor::from(std::vector<f32>{1, -5, 3, 2}, {1, 4}, device()), y = empty_of({1});
  largest(x, y);
  EXPECT_EQ(y.to_doubles().front(), -5);
}

INSTANTIATE_TEST_SUITE_P(Devices, ControlFlow, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::control_flow_test
