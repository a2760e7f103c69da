// Backward of layers against double precision, whose gradients are finite differences', on every
// device that is here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/differential/devices.h"
#include "tests/differential/moe/layer_run.h"

namespace tegula::test::experts {
namespace {

class MoeBackward : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MoeBackward, testing::ValuesIn(devices()), device_name);

/// The norm of the error is at most `bound` of the norm of `want`, which is as long.
void expect_close(const char* what, const Row& got, const Row& want, double bound) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double error = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " " << i;
    error += (got[i] - want[i]) * (got[i] - want[i]), size += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(error), bound * std::sqrt(size) + 1e-30) << what;
}

/// Gradient of the logits by central differences of the weights, whose choices are given.
Row logit_gradient(const Scheme& s, const Row& logits, int experts, const Routed& routed,
                   const Row& dweights) {
  const auto width = static_cast<std::size_t>(experts), k = static_cast<std::size_t>(s.k),
             all = static_cast<std::size_t>(routed.k);
  Row gradient(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::size_t t = i / width;
    const auto loss = [&](double by) {
      Row z(logits.begin() + static_cast<std::ptrdiff_t>(t * width),
            logits.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
      z[i % width] += by;
      const Row scores = s.score(z);
      Row chosen;
      for (std::size_t j = 0; j < k; ++j)
        chosen.push_back(routed.ids[t * all + j] < 0
                             ? 0
                             : scores[static_cast<std::size_t>(routed.ids[t * all + j])]);
      const Row w = s.to_weights(chosen);
      double sum = 0;
      for (std::size_t j = 0; j < k; ++j) sum += dweights[t * all + j] * w[j];
      return sum;
    };
    gradient[i] = (loss(1e-5) - loss(-1e-5)) / 2e-5;
  }
  return gradient;
}

struct Gradients {
  MoeGradients of;

  /// All of them, of parameters in f32 or in the type of X, holding `value`.
  Gradients(const LayerCase& c, const LayerInputs& in, bool main_gradients, double value) {
    const auto like = [&](const Tensor& t) {
      if (!t.defined()) return Tensor();
      return Tensor::full(t.shape(), value, main_gradients ? DType::f32 : c.dtype, t.device());
    };
    const auto floats = [&](const Dims& shape) {
      return Tensor::full(shape, NAN, DType::f32, in.X.device());
    };
    of.X = Tensor::full(in.X.shape(), NAN, c.dtype, in.X.device());
    of.logits = floats({c.tokens, c.experts});
    of.weights = floats({c.tokens, c.expert_choice ? c.experts : c.router.k + c.shared});
    of.up = like(in.weights.up), of.up_bias = like(in.weights.up_bias);
    of.down = like(in.weights.down), of.down_bias = like(in.weights.down_bias);
  }
};

void expect_gradients(const LayerCase& c, Device device, bool main_gradients = true) {
  SCOPED_TRACE(testing::Message() << c.tokens << " tokens, " << c.experts << " experts, k "
                                  << c.router.k);
  const LayerInputs in(c, device);
  const Stream stream(device);
  const Moe layer = moe(c.options());
  const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, c.dtype, device),
               dY = Tensor::normal({c.tokens, c.h}, c.dtype, 0, 1, 77, device);
  const MoeSaved saved = layer.make_saved(in.X, in.weights);
  layer.from_logits(stream, in.X, in.logits, in.weights, Y, saved);
  expect_outputs(c, in, Y);
  Gradients d(c, in, main_gradients, 1);
  d.of.adds = main_gradients;
  layer.backward(stream, in.X, in.logits, in.weights, saved, dY, d.of);

  HostLayer host({c.tokens, c.h, c.i, c.experts + c.shared}, c.host_activation);
  host.round_hidden = [&](double x) { return rounded(x, c.dtype); };
  const LayerTensors p = reference_tensors(c, in);
  const Routed routed = kept_choices(c, in);
  LayerGradients want = c.scales_inputs ? host.backward_scaled(p, routed, dY.to_doubles())
                                        : host.backward(p, routed, dY.to_doubles());
  if (main_gradients)
    for (Row* row : {&want.of.up, &want.of.down, &want.of.up_bias, &want.of.down_bias})
      for (double& x : *row) x += 1;
  const double bound = c.dtype == DType::bf16 ? 1.0 / 128 : 1.0 / 1024;
  const auto gates = [&](const Tensor& t) {
    const Row values = t.to_doubles();
    return c.is_interleaved ? gates_first(values, c.experts + c.shared, c.up_rows()) : values;
  };
  expect_close("X", d.of.X.to_doubles(), want.of.x, bound);
  expect_close("up", gates(d.of.up), want.of.up, bound);
  expect_close("down", d.of.down.to_doubles(), want.of.down, bound);
  if (c.has_biases) {
    expect_close("up_bias", gates(d.of.up_bias), want.of.up_bias, bound);
    expect_close("down_bias", d.of.down_bias.to_doubles(), want.of.down_bias, bound);
  }
  expect_close("weights", d.of.weights.to_doubles(), want.weights, bound);
  // From the device's own weight gradients: the router's function is exact in f32. Where experts
  // choose, a weight is the softmax of its logit.
  const Row z = reference_logits(c, in);
  const Scheme scheme = c.expert_choice ? Scheme{.k = c.experts} : c.scheme;
  const Routed chosen = c.expert_choice ? routed
                                        : with_shared(route(c.scheme, z, c.experts),
                                                      {.experts = c.experts, .shared = c.shared});
  expect_close("logits", d.of.logits.to_doubles(),
               logit_gradient(scheme, z, c.experts, chosen, d.of.weights.to_doubles()), 1e-4);
}

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
}  // namespace tegula::test::experts
