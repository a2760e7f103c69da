#pragma once
// Calls a layer forward and backward and checks every gradient.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/differential/moe/layer_run.h"

namespace tegula::test::experts {

/// Expects the norm of the error to be at most `bound` times the norm of `want`, of equal size.
inline void expect_close(const char* what, const Doubles& got, const Doubles& want, double bound) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double error = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " " << i;
    error += (got[i] - want[i]) * (got[i] - want[i]), size += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(error), bound * std::sqrt(size) + 1e-30) << what;
}

/// Returns the gradient of the logits by central differences of the weights, for given choices.
inline Doubles logit_gradient(const Scheme& s, const Doubles& logits, int experts,
                              const Routed& routed, const Doubles& dweights) {
  const auto width = static_cast<std::size_t>(experts), k = static_cast<std::size_t>(s.k),
             all = static_cast<std::size_t>(routed.k);
  Doubles gradient(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::size_t t = i / width;
    const auto loss = [&](double by) {
      Doubles z(logits.begin() + static_cast<std::ptrdiff_t>(t * width),
                logits.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
      z[i % width] += by;
      const Doubles scores = s.score(z);
      Doubles chosen;
      for (std::size_t j = 0; j < k; ++j)
        chosen.push_back(routed.ids[t * all + j] < 0
                             ? 0
                             : scores[static_cast<std::size_t>(routed.ids[t * all + j])]);
      const Doubles w = s.to_weights(chosen);
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

/// `layer` has the options of c.
inline void expect_gradients(const Moe& layer, const LayerCase& c, Device device,
                             bool main_gradients) {
  SCOPED_TRACE(testing::Message() << c.tokens << " tokens, " << c.experts << " experts, k "
                                  << c.router.k << ", h " << c.h << ", i " << c.i);
  const LayerInputs in(c, device);
  const Stream stream(device);
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
    for (Doubles* row : {&want.of.up, &want.of.down, &want.of.up_bias, &want.of.down_bias})
      for (double& x : *row) x += 1;
  const double bound = c.dtype == DType::bf16 ? 1.0 / 128 : 1.0 / 1024;
  const auto gates = [&](const Tensor& t) {
    const Doubles values = t.to_doubles();
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
  const Doubles z = reference_logits(c, in);
  const Scheme scheme = c.expert_choice ? Scheme{.k = c.experts} : c.scheme;
  const Routed chosen = c.expert_choice ? routed
                                        : with_shared(route(c.scheme, z, c.experts),
                                                      {.experts = c.experts, .shared = c.shared});
  expect_close("logits", d.of.logits.to_doubles(),
               logit_gradient(scheme, z, c.experts, chosen, d.of.weights.to_doubles()), 1e-4);
}
inline void expect_gradients(const LayerCase& c, Device device, bool main_gradients = true) {
  expect_gradients(moe(c.options()), c, device, main_gradients);
}

}  // namespace tegula::test::experts
