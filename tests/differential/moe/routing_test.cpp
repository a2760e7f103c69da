// Routers and placements against the references, on every available device.
#include <gtest/gtest.h>

#include "tests/differential/devices.h"
#include "tests/differential/moe/routing_run.h"

namespace tegula::test::experts::routing_test {
namespace {

class MoeRouting : public testing::TestWithParam<Device> {
 protected:
  void expect_scheme(const Router& router, const Scheme& scheme, const RoutingCase& c,
                     std::uint64_t seed = 1) const {
    SCOPED_TRACE(testing::Message()
                 << c.tokens << " tokens, " << c.experts << " experts, k " << router.k);
    const Tensor logits = few_logits(c, seed, GetParam());
    const RoutedTensors got = run_routing(router, c, logits);
    expect_routed(got, with_shared(route(scheme, logits.to_doubles(), c.experts), c));
    expect_placed(got, c, router.k);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MoeRouting, testing::ValuesIn(devices()), device_name);

TEST_P(MoeRouting, Schemes) {
  const RoutingCase c{.tokens = 35, .experts = 8};
  expect_scheme(routers::mixtral(), mixtral(), c);
  expect_scheme(routers::qwen3(3), qwen3(3), c);
  expect_scheme(routers::deepseek_moe(3), deepseek_moe(3), c);
  expect_scheme(routers::switch_transformer(), switched(), c);
  expect_scheme(routers::llama4(), llama4(), c);
  expect_scheme(routers::gshard(), gshard(), c);
  expect_scheme(routers::sqrt_softplus(3),
                {.k = 3, .score = sqrt_softplus, .to_weights = renormalised}, c);
}

TEST_P(MoeRouting, LimitedGroupsAndSelectionBias) {
  const RoutingCase c{.tokens = 20, .experts = 32};
  const Tensor bias = Tensor::integers({32}, DType::f32, -3, 4, 5, GetParam());
  expect_scheme(routers::deepseek_v3(bias, {.k = 4, .groups = 8, .kept_groups = 3}),
                deepseek_v3(bias.to_doubles(), 4, 8, 3), c);
}

TEST_P(MoeRouting, AnyNumberOfExpertsAndChoices) {
  for (const auto& [experts, k] : {std::pair{1, 1},
                                   {7, 7},
                                   {64, 2},
                                   {64, 5},
                                   {160, 3},
                                   {160, 6},
                                   {256, 4},
                                   {256, 8},
                                   {384, 8},
                                   {384, 9},
                                   {512, 1},
                                   {512, 10}})
    expect_scheme(routers::qwen3(k), qwen3(k), {.tokens = 19, .experts = experts});
}

TEST_P(MoeRouting, AnyNumberOfTokens) {
  for (const int tokens : {0, 1, 3, 16, 127, 300}) {
    const RoutingCase by_tables{.tokens = tokens, .experts = 5, .form = RoutingForm::tables};
    expect_scheme(routers::mixtral(), mixtral(), by_tables);
    for (const int tiles : {1, 4}) {
      RoutingCase c = by_tables;
      c.form = RoutingForm::tiles, c.tiles_of_program = tiles;
      expect_scheme(routers::mixtral(), mixtral(), c);
    }
  }
  for (const int tokens : {0, 1, 31, 32})
    expect_scheme(routers::mixtral(), mixtral(),
                  {.tokens = tokens, .experts = 5, .form = RoutingForm::one_tile, .block = 32});
}

/// More tiles than a program reads the counts of at once, and more than have a program each.
TEST_P(MoeRouting, ManyTiles) {
  expect_scheme(routers::mixtral(4), mixtral(4),
                {.tokens = 1100, .experts = 256, .tiles_of_program = 16});
  const RoutingCase c{.tokens = 2100, .experts = 6, .up_rows = 128, .down_rows = 128};
  const Tensor logits = few_logits(c, 2, GetParam());
  const Moe layer = moe({.router = routers::mixtral(), .experts = c.experts});
  const kernels::MoeRouting r = layer.make_routing(c.tokens, GetParam());
  layer.route(Stream(GetParam()), logits, {}, r);
  const RoutedTensors got{r.ids, r.weights, r.row_of, r.slot_of, r.offsets, r.first_tiles};
  expect_routed(got, route(mixtral(), logits.to_doubles(), c.experts));
  expect_placed(got, c, 2);
}

TEST_P(MoeRouting, SharedExperts) {
  expect_scheme(routers::mixtral(), mixtral(), {.tokens = 21, .experts = 6, .shared = 2});
}

TEST_P(MoeRouting, Capacity) {
  for (const int capacity : {0, 1, 5, 1000}) {
    const RoutingCase c{.tokens = 50, .experts = 6, .capacity = capacity};
    expect_scheme(routers::gshard(), gshard(), c);
    for (const bool by_slot : {false, true}) {
      RoutingCase by_tables = c;
      by_tables.form = RoutingForm::tables, by_tables.by_slot = by_slot;
      expect_scheme(routers::gshard(), gshard(), by_tables);
    }
  }
  expect_scheme(
      routers::gshard(), gshard(),
      {.tokens = 27, .experts = 6, .capacity = 5, .form = RoutingForm::one_tile, .block = 32});
}

TEST_P(MoeRouting, SharedExpertsHaveNoCapacity) {
  for (const int capacity : {0, 5}) {
    RoutingCase c{.tokens = 50, .experts = 6, .shared = 2, .capacity = capacity};
    expect_scheme(routers::gshard(), gshard(), c);
    c.form = RoutingForm::tables;
    for (const int group_tokens : {0, 256})
      for (const bool by_slot : {false, true}) {
        c.by_slot = by_slot, c.group_tokens = group_tokens, c.tokens = 50 + 2 * group_tokens;
        expect_scheme(routers::gshard(), gshard(), c);
      }
    c = {.tokens = 27, .experts = 6, .shared = 2, .capacity = capacity};
    c.form = RoutingForm::one_tile, c.block = 32;
    expect_scheme(routers::gshard(), gshard(), c);
  }
}

/// Numbers after the router's experts are not those of shared ones to a router.
TEST_P(MoeRouting, ARouterChoosesNoSharedExpert) {
  const RoutingCase c{.tokens = 40, .experts = 4, .shared = 2};
  const Router beyond{1, [](const Tile& z, const Index&) {
                        return Routing{full<f32>(1.0f, z.dim(0), 1), full<i32>(4, z.dim(0), 1)};
                      }};
  const RoutedTensors got = run_routing(beyond, c, few_logits(c, 1, GetParam()));
  EXPECT_EQ(ints(got.offsets), (std::vector{0, 0, 0, 0, 0, 40, 80}));
  expect_placed(got, c, 1);
}

/// Groups that 16 tiles, or 32, make up, the last one with fewer tokens.
TEST_P(MoeRouting, CapacityByGroups) {
  for (const int capacity : {0, 40, 1000})
    for (const bool by_slot : {false, true})
      for (const int group_tokens : {256, 512})
        expect_scheme(routers::gshard(), gshard(),
                      {.tokens = 800,
                       .experts = 6,
                       .capacity = capacity,
                       .by_slot = by_slot,
                       .group_tokens = group_tokens,
                       .form = RoutingForm::tables});
}

TEST_P(MoeRouting, MoreGroupsOfTilesThanAreReadAtOnce) {
  expect_scheme(routers::mixtral(1), mixtral(1), {.tokens = 4500, .experts = 3});
}

TEST_P(MoeRouting, OneExpertTakesAll) {
  const RoutingCase c{.tokens = 40, .experts = 4};
  const Router third{1, [](const Tile& z, const Index&) {
                       return Routing{full<f32>(1.0f, z.dim(0), 1), full<i32>(2, z.dim(0), 1)};
                     }};
  const RoutedTensors got = run_routing(third, c, few_logits(c, 1, GetParam()));
  EXPECT_EQ(ints(got.offsets), (std::vector{0, 0, 0, 40, 40}));
  expect_placed(got, c, 1);
}

TEST_P(MoeRouting, ChoicesWithoutAnExpertAreDropped) {
  const RoutingCase c{.tokens = 33, .experts = 6};
  std::vector<f32> draws;
  for (int i = 0; i < c.tokens; ++i) draws.push_back(static_cast<f32>(i % 8) / 8);
  const Tensor logits = few_logits(c, 3, GetParam());
  const RoutedTensors got =
      run_routing(routers::gshard_random(Tensor::from(draws, GetParam()), 0.5f), c, logits);
  Routed want = route(gshard(), logits.to_doubles(), c.experts);
  for (std::size_t i = 1; i < want.ids.size(); i += 2)
    if (draws[i / 2] * 0.5 >= want.weights[i]) want.ids[i] = -1;
  EXPECT_EQ(std::ranges::count(want.ids, -1) > 3, true);
  expect_routed(got, want);
  expect_placed(got, c, 2);
}

TEST_P(MoeRouting, ARowOfNanStaysInRange) {
  const RoutingCase c{.tokens = 5, .experts = 7};
  std::vector<f32> values = few_logits(c, 1, Device::cpu()).to_vector<f32>();
  std::fill_n(values.begin() + 14, 7, NAN);
  const RoutedTensors got =
      run_routing(routers::mixtral(), c, Tensor::from(values, {5, 7}, GetParam()));
  const std::vector<int> ids = ints(got.ids);
  EXPECT_EQ(ids[4], 0);
  EXPECT_EQ(ids[5], 1);
  const Doubles weights = got.weights.to_doubles();
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(std::isnan(weights[i]), i / 2 == 2);
  expect_placed(got, c, 2);
}

TEST_P(MoeRouting, RouterBiasAndNoise) {
  const RoutingCase c{.tokens = 18, .experts = 9};
  const Tensor logits = few_logits(c, 4, GetParam()),
               bias = Tensor::integers({9}, DType::f32, -2, 3, 6, GetParam());
  Doubles biased = logits.to_doubles();
  const Doubles b = bias.to_doubles();
  for (std::size_t i = 0; i < biased.size(); ++i) biased[i] += b[i % 9];
  expect_routed(run_routing(routers::mixtral(4), c, logits, bias), route(mixtral(4), biased, 9));

  // softplus(0) = log 2 as its noise level: no two sums are close.
  const Tensor zeros = Tensor::zeros({18, 9}, DType::f32, GetParam()),
               noise = Tensor::integers({18, 9}, DType::f32, -3, 4, 7, GetParam());
  Doubles noisy = logits.to_doubles();
  const Doubles n = noise.to_doubles();
  for (std::size_t i = 0; i < noisy.size(); ++i) noisy[i] += n[i] * std::log(2.0);
  expect_routed(run_routing(routers::noisy_top_k(3, zeros, noise), c, logits),
                route(mixtral(3), noisy, 9));
}

/// By central differences of noise * softplus(noise logits).
TEST_P(MoeRouting, GradientOfNoiseLogits) {
  const auto normal = [&](std::uint64_t seed) {
    return Tensor::normal({21, 9}, DType::f32, 0, 1, seed, GetParam());
  };
  const Tensor dz = normal(1), x = normal(2), noise = normal(3),
               got = Tensor::full({21, 9}, NAN, DType::f32, GetParam());
  routers::noisy_top_k_gradient(Stream(GetParam()), dz, x, noise, got);
  const Doubles d = dz.to_doubles(), at = x.to_doubles(), n = noise.to_doubles(),
                g = got.to_doubles();
  const auto softplus = [](double v) { return std::log1p(std::exp(v)); };
  for (std::size_t i = 0; i < g.size(); ++i)
    ASSERT_NEAR(g[i], d[i] * n[i] * (softplus(at[i] + 1e-5) - softplus(at[i] - 1e-5)) / 2e-5, 1e-5);
}

TEST_P(MoeRouting, JitterIsUniformAndFollowsTheSeed) {
  const int rows = 40, columns = 72;
  const Tensor X = Tensor::full({rows, columns}, 1, DType::f16, GetParam());
  const auto run = [&](std::int64_t seed) {
    const Tensor out = Tensor::full({rows, columns}, NAN, DType::f16, GetParam());
    routers::jitter(Stream(GetParam()), X, 0.25f, Tensor::from(std::vector<i64>{seed}, GetParam()),
                    out);
    return out.to_doubles();
  };
  const Doubles first = run(1);
  double sum = 0, squares = 0;
  for (double v : first) {
    ASSERT_GE(v, 0.75);
    ASSERT_LE(v, 1.25);
    sum += v, squares += (v - 1) * (v - 1);
  }
  EXPECT_NEAR(sum / (rows * columns), 1, 0.01);
  EXPECT_NEAR(squares / (rows * columns), 0.25 * 0.25 / 3, 0.001);
  EXPECT_EQ(run(1), first);
  EXPECT_NE(run(2), first);
}

}  // namespace
}  // namespace tegula::test::experts::routing_test
