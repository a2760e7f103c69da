// Backward of layers against double precision, whose gradients are finite differences', on every
// available device.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/differential/devices.h"
#include "tests/differential/moe/gradient_run.h"

namespace tegula::test::experts::backward_test {
namespace {

class MoeBackward : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MoeBackward, testing::ValuesIn(devices()), device_name);

TEST_P(MoeBackward, AnyNumberOfTokens) {
  for (const int tokens : {0, 1, 37, 127})
    expect_gradients({.tokens = tokens, .router = routers::mixtral(), .scheme = mixtral()},
                     GetParam());
}

TEST_P(MoeBackward, Activations) {
  for (const auto& [activation, host] : {std::pair{geglu(), host_geglu()},
                                         {relu_squared(), host_relu_squared()},
                                         {clamped_swiglu(1), host_clamped_swiglu(1)}})
    expect_gradients({.tokens = 20,
                      .router = routers::qwen3(3),
                      .scheme = qwen3(3),
                      .activation = activation,
                      .host_activation = host},
                     GetParam(), false);
}

TEST_P(MoeBackward, BiasesAndInterleavedOutputs) {
  for (const bool main_gradients : {false, true})
    expect_gradients({.tokens = 20,
                      .router = routers::mixtral(4),
                      .scheme = mixtral(4),
                      .activation = clamped_swiglu(),
                      .host_activation = host_clamped_swiglu(),
                      .has_biases = true,
                      .is_interleaved = true},
                     GetParam(), main_gradients);
}

TEST_P(MoeBackward, Routers) {
  const LayerCase small{.tokens = 12, .h = 32, .i = 16};
  for (const auto& [router, scheme] :
       {std::pair{routers::deepseek_moe(3), deepseek_moe(3)},
        {routers::switch_transformer(), switched()},
        {routers::gshard(), gshard()},
        {routers::sqrt_softplus(2),
         Scheme{.k = 2, .score = sqrt_softplus, .to_weights = renormalised}}}) {
    LayerCase c = small;
    c.router = router, c.scheme = scheme, c.shared = 1;
    expect_gradients(c, GetParam());
  }
  LayerCase c = small;
  c.experts = 8;
  c.router = routers::deepseek_v3(Tensor::zeros({8}, DType::f32, GetParam()),
                                  {.k = 3, .groups = 4, .kept_groups = 2});
  c.scheme = deepseek_v3({}, 3, 4, 2);
  expect_gradients(c, GetParam());
}

TEST_P(MoeBackward, RoutersThatDraw) {
  LayerCase c{.tokens = 24, .h = 32, .i = 16, .scheme = gshard()};
  for (int t = 0; t < c.tokens; ++t) c.draws.push_back(static_cast<f32>(t % 8) / 8);
  c.threshold = 0.5f;
  c.router = routers::gshard_random(Tensor::from(c.draws, GetParam()), c.threshold);
  expect_gradients(c, GetParam());

  // A noise level of log 2 keeps sums apart.
  const Dims shape{c.tokens, c.experts};
  const Tensor zeros = Tensor::zeros(shape, DType::f32, GetParam()),
               noise = Tensor::integers(shape, DType::f32, -3, 4, 7, GetParam());
  c.draws = {}, c.noise = noise.to_doubles();
  for (double& n : c.noise) n *= std::log(2.0);
  c.router = routers::noisy_top_k(3, zeros, noise), c.scheme = mixtral(3);
  expect_gradients(c, GetParam());
}

TEST_P(MoeBackward, ScaledInputs) {
  expect_gradients(
      {.tokens = 21, .router = routers::llama4(), .scheme = llama4(), .scales_inputs = true},
      GetParam());
}

/// Choices that are dropped have an expert, whose bias counts as 0 for them.
TEST_P(MoeBackward, Capacity) {
  expect_gradients({.tokens = 40,
                    .router = routers::gshard(),
                    .scheme = gshard(),
                    .has_biases = true,
                    .capacity = ExpertCapacity{.rows = 4}},
                   GetParam());
}

TEST_P(MoeBackward, ExpertsChoose) {
  expect_gradients({.tokens = 30, .expert_choice = ExpertChoice{2}}, GetParam());
}

/// Experts of many rows, whose tiles and steps end anywhere in the next one's.
TEST_P(MoeBackward, RowsOfSeveralTiles) {
  expect_gradients({.tokens = 150,
                    .experts = 2,
                    .h = 136,
                    .i = 72,
                    .router = routers::mixtral(1),
                    .scheme = mixtral(1)},
                   GetParam());
}

/// The gradients of experts that a token of NaN does not go to are those of a layer without it.
TEST_P(MoeBackward, NanStaysWithItsExperts) {
  const LayerCase c{.tokens = 40, .router = routers::mixtral(), .scheme = mixtral()};
  LayerInputs in(c, GetParam());
  const Stream stream(GetParam());
  const Moe layer = moe(c.options());
  const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, c.dtype, GetParam()),
               dY = Tensor::normal({c.tokens, c.h}, c.dtype, 0, 1, 77, GetParam());
  constexpr int kToken = 0;
  const auto gradients = [&](double x) {
    in.X.slice(0, kToken, kToken + 1).copy_from(Tensor::full({1, c.h}, x, c.dtype, GetParam()));
    const MoeSaved saved = layer.make_saved(in.X, in.weights);
    layer.from_logits(stream, in.X, in.logits, in.weights, Y, saved);
    Gradients d(c, in, false, 1);
    layer.backward(stream, in.X, in.logits, in.weights, saved, dY, d.of);
    return std::array{d.of.up.to_doubles(), d.of.down.to_doubles()};
  };
  const Routed routed = kept_choices(c, in);
  const auto without = gradients(0), with = gradients(NAN);
  for (std::size_t of = 0; of < 2; ++of) {
    const std::size_t each = with[of].size() / static_cast<std::size_t>(c.experts);
    for (std::size_t i = 0; i < with[of].size(); ++i) {
      const int expert = static_cast<int>(i / each);
      if (expert == routed.ids[0] || expert == routed.ids[1]) continue;
      ASSERT_EQ(with[of][i], without[of][i]) << i;
    }
  }
}

TEST_P(MoeBackward, EmptyExpertsGetZeros) {
  const LayerCase c{
      .tokens = 2, .experts = 5, .router = routers::switch_transformer(), .scheme = switched()};
  expect_gradients(c, GetParam(), false);
}

}  // namespace
}  // namespace tegula::test::experts::backward_test
