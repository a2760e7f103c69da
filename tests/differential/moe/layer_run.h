#pragma once
// One call of a layer, every element of it checked.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"
#include "tests/differential/moe/expert_reference.h"
#include "tests/differential/moe/output_bounds.h"
#include "tests/differential/moe/placement_reference.h"
#include "tests/differential/moe/quantised_values.h"
#include "tests/differential/moe/routing_run.h"

namespace tegula::test::experts {
using namespace kernels;

struct LayerCase {
  int tokens = 16, experts = 6, shared = 0, h = 72, i = 40;
  Router router = {};
  Scheme scheme = {};
  ExpertActivation activation = swiglu();
  HostActivation host_activation = host_swiglu();
  bool has_biases = false, is_interleaved = false, scales_inputs = false;
  std::optional<ExpertCapacity> capacity = {};
  std::optional<ExpertChoice> expert_choice = {};
  MoeTiles tiles = {};
  DType dtype = DType::bf16;
  std::optional<ExpertQuantisation> quantisation = {};
  /// The router adds these to the logits (noisy top-k).
  Doubles noise = {};
  /// The router keeps second choices whose draw times `threshold` is below their weight (GShard).
  std::vector<f32> draws = {};
  f32 threshold = 0.2f;
  /// All tokens choose one expert first.
  bool is_crowded = false;

  MoeOptions options() const {
    return {.router = router,
            .experts = experts,
            .activation = activation,
            .is_interleaved = is_interleaved,
            .scales_inputs = scales_inputs,
            .shared_experts = shared,
            .capacity = capacity,
            .expert_choice = expert_choice,
            .tiles = tiles,
            .quantisation = quantisation};
  }
  int up_rows() const { return (host_activation.is_gated ? 2 : 1) * i; }
};

struct LayerInputs {
  Tensor X, logits;
  MoeWeights weights;

  LayerInputs(const LayerCase& c, Device device, std::uint64_t seed = 1) {
    const auto normal = [&](const Dims& shape, std::uint64_t of, double deviation) {
      return Tensor::normal(shape, c.dtype, 0, deviation, 10 * seed + of, device);
    };
    const int all = c.experts + c.shared;
    X = normal({c.tokens, c.h}, 1, 1);
    logits = few_logits({.tokens = c.tokens, .experts = c.experts}, seed, device);
    if (c.is_crowded) crowd(c);
    weights.up = normal({all, c.up_rows(), c.h}, 2, 1 / std::sqrt(c.h));
    weights.down = normal({all, c.h, c.i}, 3, 1 / std::sqrt(c.i));
    if (c.quantisation) quantise(weights, c.quantisation->scaling);
    if (!c.has_biases) return;
    weights.up_bias = normal({all, c.up_rows()}, 4, 1);
    weights.down_bias = normal({all, c.h}, 5, 1);
  }

 private:
  /// By more than the others differ, and little enough to leave them gradients.
  void crowd(const LayerCase& c) {
    std::vector<f32> values = logits.to_vector<f32>();
    const auto experts = static_cast<std::size_t>(c.experts);
    for (std::size_t i = experts / 2; i < values.size(); i += experts) values[i] += 8;
    logits = Tensor::from(values, {c.tokens, c.experts}, logits.device());
  }
};

inline double rounded(double x, DType dtype) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1, exponent - (dtype == DType::bf16 ? 8 : 11));
  return std::nearbyint(x / unit) * unit;
}

/// [experts, rows, ..] with gates and ups alternating as the reference has them.
inline Doubles gates_first(const Doubles& values, int experts, int rows) {
  const std::size_t width = values.size() / static_cast<std::size_t>(experts * rows),
                    half = static_cast<std::size_t>(rows / 2);
  Doubles out(values.size());
  for (std::size_t r = 0; r < values.size() / width; ++r) {
    const std::size_t e = r / (2 * half), j = r % (2 * half), to = j / 2 + (j % 2) * half;
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(r * width), width,
                out.begin() + static_cast<std::ptrdiff_t>((e * 2 * half + to) * width));
  }
  return out;
}

/// The logits that the reference routes by.
inline Doubles reference_logits(const LayerCase& c, const LayerInputs& in) {
  Doubles z = in.logits.to_doubles();
  for (std::size_t i = 0; i < c.noise.size(); ++i) z[i] += c.noise[i];
  return z;
}

/// The kept choices; an id of -1 for those without a place.
inline Routed kept_choices(const LayerCase& c, const LayerInputs& in) {
  if (c.expert_choice) {
    const double mean = static_cast<double>(c.tokens) / c.experts;
    const int rows =
        std::min(c.tokens, static_cast<int>(std::ceil(c.expert_choice->factor * mean)));
    const ChosenTokens choice = expert_choice(in.logits.to_doubles(), c.experts, rows);
    const auto choices = static_cast<std::size_t>(c.tokens * c.experts);
    Routed routed{c.experts, std::vector<int>(choices, -1), Doubles(choices)};
    for (std::size_t i = 0; i < choice.tokens.size(); ++i) {
      const int e = static_cast<int>(i) / rows, at = choice.tokens[i] * c.experts + e;
      routed.ids[static_cast<std::size_t>(at)] = e;
      routed.weights[static_cast<std::size_t>(at)] = choice.gates[i];
    }
    return routed;
  }
  Routed routed = route(c.scheme, reference_logits(c, in), c.experts);
  for (std::size_t t = 0; t < c.draws.size(); ++t)
    if (c.draws[t] * c.threshold >= routed.weights[2 * t + 1]) routed.ids[2 * t + 1] = -1;
  routed = with_shared(routed, {.experts = c.experts, .shared = c.shared});
  if (!c.capacity) return routed;
  const Placement placed =
      place(routed, c.experts + c.shared,
            {.rows = c.capacity->rows.value(),
             .priority = c.capacity->by_slot ? Priority::slot_major : Priority::token_major,
             .group = c.capacity->group_tokens > 0 ? c.capacity->group_tokens : c.tokens,
             .shared = c.shared});
  for (std::size_t i = 0; i < routed.ids.size(); ++i)
    if (placed.row_of[i] < 0) routed.ids[i] = -1;
  return routed;
}

/// The scale where the layer's policy has given ones.
inline std::optional<f32> given_scale(const LayerCase& c, f32 scale) {
  return c.quantisation->scaling == ExpertScaling::tensor ? std::optional(scale) : std::nullopt;
}
/// Activations as the down projection takes them; by rows they are stored in X's type first.
inline void store_quantised(const LayerCase& c, Doubles& activations) {
  const std::optional<f32> scale = given_scale(c, kHiddenScale);
  if (!scale)
    for (double& x : activations) x = rounded(x, c.dtype);
  quantise_rows(activations, activations.size(), scale);
}

inline LayerTensors reference_tensors(const LayerCase& c, const LayerInputs& in) {
  const auto of = [](const Tensor& t) { return t.defined() ? t.to_doubles() : Doubles(); };
  LayerTensors p{of(in.X), of(in.weights.up), of(in.weights.down), of(in.weights.up_bias),
                 of(in.weights.down_bias)};
  if (c.quantisation) {
    quantise_rows(p.x, static_cast<std::size_t>(c.h), given_scale(c, kInputScale));
    multiply(p.up, of(in.weights.scales.up)), multiply(p.down, of(in.weights.scales.down));
  }
  if (!c.is_interleaved) return p;
  const int all = c.experts + c.shared;
  p.up = gates_first(p.up, all, c.up_rows());
  if (c.has_biases) p.up_bias = gates_first(p.up_bias, all, c.up_rows());
  return p;
}

/// A layer's outputs in double precision, and the bounds of those in 8 bits.
struct Expected {
  Doubles outputs;
  OutputBounds bounds;
};
inline Expected expected(const LayerCase& c, const LayerTensors& p, const Routed& routed) {
  const LayerShape shape{c.tokens, c.h, c.i, c.experts + c.shared};
  HostLayer layer(shape, c.host_activation);
  layer.round = [&](double x) { return rounded(x, c.dtype); };
  if (c.quantisation) {
    layer.round_input = [](double x) { return x; };
    layer.store_activations = [&](Doubles& a) { store_quantised(c, a); };
  }
  const std::vector<ExpertRow> rows =
      c.scales_inputs ? layer.scaled_rows(p, routed) : layer.rows(p, routed);
  Expected e{layer.combined(p, rows),
             OutputBounds(shape, c.dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048)};
  if (c.quantisation) e.bounds.add_8_bit_activations(p, rows, given_scale(c, kHiddenScale));
  return e;
}

inline void expect_outputs(const LayerCase& c, const LayerInputs& in, const Tensor& Y) {
  const Expected e = expected(c, reference_tensors(c, in), kept_choices(c, in));
  EXPECT_TRUE(e.bounds.hold(Y.to_doubles(), e.outputs));
}

/// `layer` is of c's options.
inline void expect_layer(const Moe& layer, const LayerCase& c, Device device) {
  SCOPED_TRACE(testing::Message() << c.tokens << " tokens, " << c.experts << " experts, k "
                                  << c.router.k << ", h " << c.h << ", i " << c.i);
  const LayerInputs in(c, device);
  const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, c.dtype, device);
  layer.from_logits(Stream(device), in.X, in.logits, in.weights, Y);
  expect_outputs(c, in, Y);
}
inline void expect_layer(const LayerCase& c, Device device) {
  expect_layer(moe(c.options()), c, device);
}

}  // namespace tegula::test::experts
