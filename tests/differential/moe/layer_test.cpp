// Whole layers, router to combined rows, against double precision on every available device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/moe/layer_run.h"

namespace tegula::test::experts::layer_test {
using namespace kernels;
namespace {

class MoeLayer : public testing::TestWithParam<Device> {
 protected:
  void expect(const LayerCase& c) const { expect_layer(c, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, MoeLayer, testing::ValuesIn(devices()), device_name);

TEST_P(MoeLayer, AnyNumberOfTokens) {
  for (const int tokens : {0, 1, 3, 37, 127})
    expect({.tokens = tokens, .router = routers::mixtral(), .scheme = mixtral()});
}

TEST_P(MoeLayer, Activations) {
  for (const auto& [activation, host] : {std::pair{swiglu(), host_swiglu()},
                                         {geglu(), host_geglu()},
                                         {relu_squared(), host_relu_squared()},
                                         {clamped_swiglu(1), host_clamped_swiglu(1)}})
    expect({.tokens = 20,
            .router = routers::qwen3(3),
            .scheme = qwen3(3),
            .activation = activation,
            .host_activation = host});
}

TEST_P(MoeLayer, BiasesAndInterleavedOutputs) {
  expect({.tokens = 20,
          .router = routers::mixtral(4),
          .scheme = mixtral(4),
          .activation = clamped_swiglu(),
          .host_activation = host_clamped_swiglu(),
          .has_biases = true,
          .is_interleaved = true});
}

TEST_P(MoeLayer, SharedExpertsAndScaledInputs) {
  expect(
      {.tokens = 21, .shared = 2, .router = routers::deepseek_moe(3), .scheme = deepseek_moe(3)});
  expect({.tokens = 21, .router = routers::llama4(), .scheme = llama4(), .scales_inputs = true});
}

TEST_P(MoeLayer, ManyExpertsFewRows) {
  expect({.tokens = 3, .experts = 64, .router = routers::qwen3(8), .scheme = qwen3(8)});
}

TEST_P(MoeLayer, TilesOfEveryKind) {
  for (const ExpertTileConfig& tiles : {ExpertTileConfig{.bm = 128, .bn = 128},
                                        {.bm = 64, .bn = 64},
                                        {.bm = 32, .bn = 64, .swap_ab = true},
                                        {.bm = 64, .bn = 128, .swap_ab = true},
                                        {.bm = 144, .bn = 64, .swap_ab = true}})
    expect({.tokens = 70,
            .experts = 3,
            .router = routers::mixtral(),
            .scheme = mixtral(),
            .tiles = {tiles, tiles}});
  // Tables of two heights that are not powers of two.
  expect({.tokens = 70,
          .experts = 3,
          .router = routers::mixtral(),
          .scheme = mixtral(),
          .tiles = {ExpertTileConfig{.bm = 48, .bn = 64, .swap_ab = true},
                    ExpertTileConfig{.bm = 80, .bn = 64, .swap_ab = true}}});
}

/// Accumulators of 64 rows that take two warpgroups: the plan that is chosen is legal, too.
TEST_P(MoeLayer, WideTilesExplainThemselves) {
  const LayerCase c{.tokens = 20,
                    .router = routers::mixtral(),
                    .scheme = mixtral(),
                    .tiles = {.up = ExpertTileConfig{.bm = 64, .bn = 256}}};
  const Moe layer = moe(c.options());
  expect_layer(layer, c, GetParam());
  EXPECT_NO_THROW(layer.explain(c.dtype));
}

/// The bits of permuted rows, with dropped choices, pre-activations of training, and experts
/// without rows, in clusters that multicast the weights, too.
TEST_P(MoeLayer, GatheredRowsAreTheSame) {
  for (const bool swap_ab : {false, true}) {
    LayerCase c{.tokens = 70,
                .experts = 5,
                .router = routers::qwen3(2),
                .scheme = qwen3(2),
                .capacity = ExpertCapacity{.rows = 30}};
    const LayerInputs in(c, GetParam());
    ExpertTileConfig tiles{.bm = swap_ab ? 112 : 128, .bn = 64, .swap_ab = swap_ab};
    const auto run = [&](bool gathers, bool multicast) {
      tiles.gathers = gathers, tiles.multicast = multicast;
      c.tiles.up = tiles;
      const Moe layer = moe(c.options());
      const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, c.dtype, GetParam());
      const MoeSaved saved = layer.make_saved(in.X, in.weights);
      saved.hidden.fill(0);
      layer.from_logits(Stream(GetParam()), in.X, in.logits, in.weights, Y, saved);
      Doubles all = Y.to_doubles();
      for (const double x : saved.hidden.to_doubles()) all.push_back(x);
      return all;
    };
    const Doubles permuted = run(false, false);
    for (const bool multicast : {false, true})
      EXPECT_EQ(run(true, multicast), permuted) << swap_ab << multicast;
  }
}

TEST_P(MoeLayer, Capacity) {
  for (const bool by_slot : {false, true})
    for (const int rows : {0, 4})
      expect({.tokens = 40,
              .router = routers::gshard(),
              .scheme = gshard(),
              .capacity = ExpertCapacity{.rows = rows, .by_slot = by_slot}});
}

TEST_P(MoeLayer, CapacityByGroups) {
  expect({.tokens = 300,
          .h = 16,
          .i = 8,
          .router = routers::gshard(),
          .scheme = gshard(),
          .capacity = ExpertCapacity{.rows = 60, .by_slot = true, .group_tokens = 256}});
}

TEST_P(MoeLayer, ExpertsChoose) {
  for (const auto& [tokens, experts] : {std::pair{1, 1}, {37, 6}, {50, 20}})
    for (const float factor : {0.5f, 2.0f, 100.0f})
      expect({.tokens = tokens, .experts = experts, .expert_choice = ExpertChoice{factor}});
}

TEST_P(MoeLayer, HalfPrecisionOfTheOtherKind) {
  expect({.tokens = 33, .router = routers::mixtral(), .scheme = mixtral(), .dtype = DType::f16});
}

TEST_P(MoeLayer, EqualBitsInEachRun) {
  const LayerCase c{.tokens = 60, .router = routers::qwen3(4), .scheme = qwen3(4)};
  const LayerInputs in(c, GetParam());
  const Moe layer = moe(c.options());
  const auto run = [&] {
    const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, c.dtype, GetParam());
    layer.from_logits(Stream(GetParam()), in.X, in.logits, in.weights, Y);
    return Y.to_doubles();
  };
  EXPECT_EQ(run(), run());
}

/// A token's bits do not depend on the others: with the router's own logits, too.
class MoeBatches : public MoeLayer {
 protected:
  void expect_independent_tokens(const MoeOptions& options) const {
    const LayerCase c{.tokens = 300, .router = options.router, .scheme = {}};
    LayerInputs in(c, GetParam());
    in.weights.router =
        Tensor::normal({c.experts, c.h}, c.dtype, 0, 1 / std::sqrt(c.h), 9, GetParam());
    const Moe layer = moe(options);
    const auto run = [&](int from, int to) {
      const Tensor Y = Tensor::full({to - from, c.h}, NAN, c.dtype, GetParam());
      layer(Stream(GetParam()), in.X.slice(0, from, to), in.weights, Y);
      return Y.to_doubles();
    };
    Doubles whole = run(0, c.tokens);
    whole.erase(whole.begin(), whole.begin() + 17 * c.h);
    whole.resize(static_cast<std::size_t>(6 * c.h));
    EXPECT_EQ(run(17, 23), whole);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MoeBatches, testing::ValuesIn(devices()), device_name);

TEST_P(MoeBatches, ConfigurationsThatFollowFromNoBatch) {
  expect_independent_tokens(
      {.router = routers::qwen3(3), .experts = 6, .is_batch_invariant = true});
}
TEST_P(MoeBatches, GivenTiles) {
  const ExpertTileConfig tiles{.bm = 64, .bn = 64};
  expect_independent_tokens({.router = routers::qwen3(3),
                             .experts = 6,
                             .tiles = {.up = tiles, .down = tiles},
                             .is_batch_invariant = true});
}

/// Probabilities are sums along a row, which tiles of other heights add in another order.
TEST_P(MoeBatches, WeightsOfATokenFollowFromItAlone) {
  constexpr int kExperts = 64, kTokens = 40;
  const Moe layer =
      moe({.router = routers::deepseek_moe(4), .experts = kExperts, .is_batch_invariant = true});
  const Tensor logits = Tensor::normal({kTokens, kExperts}, DType::f32, 0, 1, 5, GetParam());
  const auto weights = [&](int tokens) {
    const MoeRouting out = layer.make_routing(tokens, GetParam());
    layer.route(Stream(GetParam()), logits.slice(0, 0, tokens), {}, out);
    Doubles all = out.weights.to_doubles();
    all.resize(4);
    return all;
  };
  for (const int tokens : {1, 12, 20}) EXPECT_EQ(weights(tokens), weights(kTokens)) << tokens;
}

/// The weights' router, whose logits are exact sums of small integers.
TEST_P(MoeLayer, WithItsOwnRouter) {
  const LayerCase c{.tokens = 25, .router = routers::mixtral(), .scheme = mixtral()};
  LayerInputs in(c, GetParam());
  in.X = Tensor::integers({c.tokens, c.h}, DType::bf16, -2, 3, 3, GetParam());
  in.weights.router = Tensor::integers({c.experts, c.h}, DType::bf16, -1, 2, 4, GetParam());
  const auto x = in.X.to_doubles(), w = in.weights.router.to_doubles();
  std::vector<f32> logits(static_cast<std::size_t>(c.tokens * c.experts));
  const auto h = static_cast<std::size_t>(c.h), experts = static_cast<std::size_t>(c.experts);
  for (std::size_t i = 0; i < logits.size(); ++i)
    for (std::size_t j = 0; j < h; ++j)
      logits[i] += static_cast<f32>(x[i / experts * h + j] * w[i % experts * h + j]);
  in.logits = Tensor::from(logits, {c.tokens, c.experts}, GetParam());
  const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, DType::bf16, GetParam());
  moe(c.options())(Stream(GetParam()), in.X, in.weights, Y);
  expect_outputs(c, in, Y);
}

}  // namespace
}  // namespace tegula::test::experts::layer_test
