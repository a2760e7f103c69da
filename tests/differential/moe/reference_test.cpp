// The references themselves: routing against worked examples, gradients against finite differences.
#include <gtest/gtest.h>

#include <random>

#include "tests/differential/moe/expert_reference.h"
#include "tests/differential/moe/placement_reference.h"
#include "tests/differential/moe/routing_reference.h"

namespace tegula::test::experts::reference_test {
namespace {

Doubles normal(std::size_t count, unsigned seed) {
  std::mt19937 dice(seed);
  std::normal_distribution<double> values;
  Doubles row(count);
  for (double& x : row) x = values(dice);
  return row;
}

TEST(MoeReference, TiesGoToTheSmallerIndexAndNanIsLast) {
  EXPECT_EQ(best_of({1, 3, 3, NAN, 2}, 5), (std::vector{1, 2, 4, 0, 3}));
}

TEST(MoeReference, DroppedGroupsRankAfterNegativeScores) {
  // Group sums 5 + 4, -1 - 2, 6 + 1: groups 0 and 2 stay, and the third best is of theirs.
  const Scheme s{.k = 4, .score = as_is, .groups = 3, .kept_groups = 2};
  EXPECT_EQ(route(s, {5, 4, -1, -2, 6, 1}, 6).ids, (std::vector{4, 0, 1, 5}));
  const Scheme negative{.k = 2, .score = as_is, .groups = 2, .kept_groups = 1};
  EXPECT_EQ(route(negative, {-1, -2, 0.5, -9}, 4).ids, (std::vector{0, 1}));
}

TEST(MoeReference, WeightsOfSchemes) {
  const Doubles z{0, std::log(3.0)};
  EXPECT_NEAR(route(mixtral(), z, 2).weights[0], 0.75, 1e-15);
  EXPECT_NEAR(route(switched(), z, 2).weights[0], 0.75, 1e-15);
  EXPECT_NEAR(route(llama4(), z, 2).weights[0], 0.75, 1e-15);
  EXPECT_NEAR(route(qwen3(2), z, 2).weights[1], 0.25, 1e-15);
  const Doubles w = route(deepseek_v3({1, 0}, 2, 1, 1), z, 2).weights;
  EXPECT_NEAR(w[0], 2.5 * 0.5 / 1.25, 1e-15);  // expert 0 is first by its bias alone
  EXPECT_NEAR(w[1], 2.5 * 0.75 / 1.25, 1e-15);
}

TEST(MoeReference, PrioritiesUnderCapacity) {
  // Tokens 0, 1, 2 choose {0, 1}, {1, 0}, {0, 1}; token 1 is the surest.
  const Routed r{2, {0, 1, 1, 0, 0, 1}, {.6, .4, .9, .1, .7, .3}};
  const auto rows = [&](Priority p) { return place(r, 2, {2, p}).slot_of; };
  EXPECT_EQ(place(r, 2).slot_of, (std::vector{0, 3, 4, 1, 2, 5}));
  EXPECT_EQ(rows(Priority::token_major), (std::vector{0, 3, 1, 2}));
  EXPECT_EQ(rows(Priority::slot_major), (std::vector{0, 4, 2, 1}));
  EXPECT_EQ(rows(Priority::batch), (std::vector{3, 4, 2, 5}));
  const Placement grouped = place(r, 2, {1, Priority::token_major, 2});
  EXPECT_EQ(grouped.slot_of, (std::vector{0, 4, 1, 5}));
  EXPECT_EQ(place(r, 2, {.rows = 0}).offsets, (std::vector{0, 0, 0}));
}

TEST(MoeReference, BalanceIsOneForEvenRouting) {
  const Routed r{1, {0, 1, 2, 3}, Doubles(4, 0.25)};
  const BalanceSums sums = balance_sums(Doubles(16), r, 4);
  EXPECT_NEAR(sums.switch_loss(1), 1, 1e-12);
  EXPECT_NEAR(sums.z_loss, std::log(4.0) * std::log(4.0), 1e-12);
  EXPECT_NEAR(cv_squared({2, 2, 2}), 0, 1e-12);
}

/// Every gradient against central differences of <forward, dy>.
void expect_gradients(const HostActivation& act, unsigned seed) {
  const LayerShape shape{3, 4, 3, 3};
  const HostLayer layer(shape, act);
  const auto up = static_cast<std::size_t>(layer.up_rows());
  LayerTensors p{normal(12, seed), normal(3 * up * 4, seed + 1), normal(36, seed + 2),
                 normal(3 * up, seed + 3), normal(12, seed + 4)};
  Routed r{2, {0, 1, 1, -1, 1, 0}, {.6, .4, .9, .1, .7, .3}};
  const Doubles dy = normal(12, seed + 5);
  const LayerGradients d = layer.backward(p, r, dy);
  const auto loss = [&] {
    const Doubles y = layer.forward(p, r);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  const auto expect = [&](Doubles& values, const Doubles& gradient, const char* name) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double old = values[i], step = 1e-5;
      values[i] = old + step;
      const double above = loss();
      values[i] = old - step;
      const double below = loss();
      values[i] = old;
      ASSERT_NEAR(gradient[i], (above - below) / (2 * step), 1e-6) << name << " " << i;
    }
  };
  expect(p.x, d.of.x, "x"), expect(p.up, d.of.up, "up"), expect(p.down, d.of.down, "down");
  expect(p.up_bias, d.of.up_bias, "up_bias"), expect(p.down_bias, d.of.down_bias, "down_bias");
  expect(r.weights, d.weights, "weights");
}

TEST(MoeReference, GradientsAreFiniteDifferences) {
  expect_gradients(host_swiglu(), 1);
  expect_gradients(host_geglu(), 11);
  expect_gradients(host_relu_squared(), 21);
  expect_gradients(host_clamped_swiglu(1.25), 31);  // some are clamped
}

}  // namespace
}  // namespace tegula::test::experts::reference_test
