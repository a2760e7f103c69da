// Balance sums, losses and their gradients against double precision, on every available device.
#include "tegula/kernels/moe_balance.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/differential/devices.h"
#include "tests/differential/moe/routing_run.h"

namespace tegula::test::experts::balance_test {
using namespace kernels;
namespace {

class MoeBalances : public testing::TestWithParam<Device> {
 protected:
  Tensor filled(const Dims& shape, DType dtype = DType::f32) const {
    return Tensor::full(shape, -7, dtype, GetParam());
  }
  Stream stream() const { return Stream(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, MoeBalances, testing::ValuesIn(devices()), device_name);

void expect_near(const Tensor& got, const Doubles& want) {
  const Doubles values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(values[i], want[i], 3e-6 * (1 + std::abs(want[i]))) << i;
}

TEST_P(MoeBalances, SumsAndLosses) {
  for (const auto& [tokens, experts] : {std::pair{1, 1}, {33, 7}, {700, 16}}) {
    SCOPED_TRACE(tokens);
    const Tensor logits = few_logits({.tokens = tokens, .experts = experts}, 3, GetParam());
    const Routed routed = route(qwen3(std::min(2, experts)), logits.to_doubles(), experts);
    const std::vector<i32> ids(routed.ids.begin(), routed.ids.end());
    const MoeBalance got{filled({experts}, DType::i32), filled({experts}), filled({2})};
    moe_balance(stream(), logits, Tensor::from(ids, {tokens, routed.k}, GetParam()), got);
    const BalanceSums want = balance_sums(logits.to_doubles(), routed, experts);
    expect_near(got.counts, Doubles(want.counts.begin(), want.counts.end()));
    expect_near(got.probability, want.mean_probability);
    expect_near(got.losses, {want.switch_loss(1), want.z_loss});
  }
}

TEST_P(MoeBalances, WithoutTokens) {
  const MoeBalance got{filled({4}, DType::i32), filled({4}), filled({2})};
  moe_balance(stream(), filled({0, 4}), filled({0, 2}, DType::i32), got);
  EXPECT_EQ(got.losses.to_doubles(), (Doubles{0, 0}));
  EXPECT_EQ(got.counts.to_doubles(), (Doubles{0, 0, 0, 0}));
}

TEST_P(MoeBalances, GradientsAreFiniteDifferences) {
  const int tokens = 19, experts = 6;
  const Tensor logits = few_logits({.tokens = tokens, .experts = experts}, 5, GetParam());
  Doubles z = logits.to_doubles();
  const Routed routed = route(qwen3(2), z, experts);
  const auto loss = [&] {
    const BalanceSums s = balance_sums(z, routed, experts);
    return 0.5 * s.switch_loss(1) + 0.25 * s.z_loss;
  };
  Doubles want;
  for (double& x : z) {
    const double old = x;
    x = old + 1e-5;
    const double above = loss();
    x = old - 1e-5;
    want.push_back(1 + (above - loss()) / 2e-5);
    x = old;
  }
  MoeBalance balance = make_moe_balance(experts, GetParam());
  const std::vector<i32> ids(routed.ids.begin(), routed.ids.end());
  moe_balance(stream(), logits, Tensor::from(ids, {tokens, 2}, GetParam()), balance);
  const Tensor gradient = Tensor::full({tokens, experts}, 1, DType::f32, GetParam());
  moe_balance_gradient(stream(), logits, balance, 0.5f, 0.25f, gradient);
  expect_near(gradient, want);
}

TEST_P(MoeBalances, BiasMovesTowardsTheMean) {
  const std::vector<i32> counts{5, 1, 3, 3, 0, 6};
  const Tensor bias = Tensor::full({6}, 1, DType::f32, GetParam());
  moe_update_bias(stream(), Tensor::from(counts, GetParam()), bias, 0.125f);
  expect_near(bias, moved_bias(Doubles(6, 1), {5, 1, 3, 3, 0, 6}, 0.125));
}

TEST_P(MoeBalances, NoisyTopK) {
  const int tokens = 41, experts = 9, k = 3;
  const Tensor z = few_logits({.tokens = tokens, .experts = experts}, 6, GetParam()),
               noise = Tensor::integers({tokens, experts}, DType::f32, -3, 4, 7, GetParam()),
               noise_logits = Tensor::normal({tokens, experts}, DType::f32, 0, 1, 8, GetParam());
  Doubles sigma = noise_logits.to_doubles(), h = z.to_doubles();
  const Doubles n = noise.to_doubles();
  for (std::size_t i = 0; i < h.size(); ++i)
    sigma[i] = std::log1p(std::exp(sigma[i])), h[i] += n[i] * sigma[i];
  const NoisyLosses want = noisy_losses(z.to_doubles(), sigma, h, experts, k);
  const NoisyTopKSums got{filled({experts}), filled({experts}), filled({2})};
  noisy_top_k_sums(stream(), z, noise_logits, noise, k, got);
  expect_near(got.importance, want.importance);
  expect_near(got.load, want.load);
  expect_near(got.losses, {cv_squared(want.importance), cv_squared(want.load)});
}

}  // namespace
}  // namespace tegula::test::experts::balance_test
