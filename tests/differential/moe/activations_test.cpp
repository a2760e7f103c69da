// Activations of experts at numbers of any size, at infinities and at NaN, and the gradients of
// routers at logits far from 0, on every available device.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/moe/expert_reference.h"
#include "tests/differential/row_checks.h"

namespace tegula::test::experts::activations_test {
using namespace kernels;
namespace {

class MoeActivations : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MoeActivations, testing::ValuesIn(devices()), device_name);

struct Activated {
  Tensor value, by_gate, by_up;
};
Activated activated(const ExpertActivation& a, const Doubles& gate, const Doubles& up,
                    Device device) {
  const auto n = static_cast<std::int64_t>(gate.size());
  const auto of = [&](const Doubles& values) {
    return Tensor::from(values, {n}, Device::cpu()).cast(DType::f32).to(device);
  };
  const auto fresh = [&] { return unwritten_rows({n}, DType::f32, device); };
  const Activated out{fresh(), fresh(), fresh()};
  const auto k = kernel("expert_activation", [a](In<f32, 1> g, In<f32, 1> u, Out<f32, 1> value,
                                                 Out<f32, 1> by_gate, Out<f32, 1> by_up) {
    for (auto i : grid(value, 64)) {
      const Tile x = g(i), v = u(i), result = a.value(x, v), one = full<f32>(1, 64);
      value(i) = result;
      by_gate(i) = derivative(result, x, one);
      by_up(i) = derivative(result, v, one);
    }
  });
  k(Stream(device), of(gate), of(up), out.value, out.by_gate, out.by_up);
  return out;
}

/// The definitions in double: of numbers all are finite but for squares and products too large.
void expect_numbers(const ExpertActivation& a, const HostActivation& host, double largest,
                    Device device) {
  Doubles gate, up, value, by_gate, by_up;
  for (const double g :
       {0.0, -0.0, 1e-40, 1e-3, 1.0, 6.9, 7.0, 7.1, 30.0, 88.0, 95.0, 1e4, 1e18, 3e38})
    for (const double sign : {1.0, -1.0})
      for (const double u : {0.5, -8.0, 7.0}) {
        if (g > largest) continue;
        gate.push_back(static_cast<float>(sign * g)), up.push_back(u);
        const auto [first, second] = host.gradient(gate.back(), u);
        value.push_back(host.value(gate.back(), u));
        by_gate.push_back(first), by_up.push_back(second);
      }
  const Activated got = activated(a, gate, up, device);
  expect_elements(got.value, value);
  expect_elements(got.by_gate, by_gate);
  expect_elements(got.by_up, by_up);
}

TEST_P(MoeActivations, NumbersOfAnySize) {
  expect_numbers(swiglu(), host_swiglu(), 1e18, GetParam());
  expect_numbers(geglu(), host_geglu(), 1e18, GetParam());
  expect_numbers(relu_squared(), host_relu_squared(), 1e18, GetParam());
  expect_numbers(clamped_swiglu(), host_clamped_swiglu(), 3e38, GetParam());
}

/// NaN of either operand is NaN in the value; of the gate, which all results depend on, in every
/// gradient. A clamp lets none become its limit.
TEST_P(MoeActivations, Nan) {
  for (const ExpertActivation& a : {swiglu(), geglu(), relu_squared(), clamped_swiglu()}) {
    const Activated got = activated(a, {NAN, 1, NAN}, {1, NAN, NAN}, GetParam());
    const Doubles value = got.value.to_doubles(), by_gate = got.by_gate.to_doubles(),
                  by_up = got.by_up.to_doubles();
    for (const std::size_t i : {0, 1, 2}) {
      if (!a.is_gated && i == 1) continue;
      EXPECT_TRUE(std::isnan(value[i])) << i;
      EXPECT_TRUE(std::isnan(by_gate[i])) << i;
      EXPECT_EQ(std::isnan(by_up[i]), a.is_gated && i != 1) << i;
    }
  }
}

/// Infinities are clamped like other numbers; the gradient of what is clamped is 0.
TEST_P(MoeActivations, Infinities) {
  const double top = 7 / (1 + std::exp(-1.702 * 7));
  const Activated got = activated(clamped_swiglu(), {INFINITY, INFINITY, 1},
                                  {INFINITY, -INFINITY, INFINITY}, GetParam());
  expect_elements(got.value, {top * 8, top * -6, 8 / (1 + std::exp(-1.702))});
  EXPECT_EQ(got.by_up.to_doubles(), Doubles(3, 0));
  EXPECT_EQ(got.by_gate.to_doubles()[0], 0);
  EXPECT_EQ(got.by_gate.to_doubles()[1], 0);
  const Activated squared = activated(relu_squared(), {INFINITY, -INFINITY}, {0, 0}, GetParam());
  EXPECT_EQ(squared.value.to_doubles(), (Doubles{INFINITY, 0}));
  EXPECT_EQ(squared.by_gate.to_doubles(), (Doubles{INFINITY, 0}));
}

/// Experts that no token chooses have logits so low that their scores, and gradients, are about 0.
TEST_P(MoeActivations, GradientsOfLogitsFarFromZero) {
  const Device device = GetParam();
  for (const Router& router : {routers::mixtral(2), routers::deepseek_moe(2), routers::gshard(),
                               routers::llama4(), routers::sqrt_softplus(2)}) {
    const auto k = kernel("router_gradient",
                          [router](In<f32, 2> z, In<i32, 2> ids, In<f32, 2> dw, Out<f32, 2> dz) {
                            for (auto t : grid(rows(z), 4))
                              dz(t, all) = router.gradient(z(t, all), t, ids(t, all), dw(t, all));
                          });
    const std::vector<f32> logits{1, 2, -120, -3e38f, 1, 2, -90, -200};
    std::vector<i32> ids{1, 0, 1, 0};
    std::vector<f32> weights{1, 0.5f, 1, 0.5f};
    if (router.k == 1) ids = {1, 1}, weights = {1, 1};
    const Tensor dz = unwritten_rows({2, 4}, DType::f32, device);
    k(Stream(device), Tensor::from(logits, {2, 4}, device),
      Tensor::from(ids, {2, router.k}, device), Tensor::from(weights, {2, router.k}, device), dz);
    const Doubles got = dz.to_doubles();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(std::isfinite(got[i])) << i;
      EXPECT_TRUE(i % 4 < 2 || std::abs(got[i]) < 1e-30) << i << ": " << got[i];
    }
  }
}

}  // namespace
}  // namespace tegula::test::experts::activations_test
