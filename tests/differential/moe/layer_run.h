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
#include "tests/differential/moe/placement_reference.h"
#include "tests/differential/moe/routing_run.h"

namespace tegula::test::experts {

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

  MoeOptions options() const {
    return {.router = router,
            .experts = experts,
            .activation = activation,
            .is_interleaved = is_interleaved,
            .scales_inputs = scales_inputs,
            .shared_experts = shared,
            .capacity = capacity,
            .expert_choice = expert_choice,
            .tiles = tiles};
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
    weights.up = normal({all, c.up_rows(), c.h}, 2, 1 / std::sqrt(c.h));
    weights.down = normal({all, c.h, c.i}, 3, 1 / std::sqrt(c.i));
    if (!c.has_biases) return;
    weights.up_bias = normal({all, c.up_rows()}, 4, 1);
    weights.down_bias = normal({all, c.h}, 5, 1);
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
inline Row gates_first(const Row& values, int experts, int rows) {
  const std::size_t width = values.size() / static_cast<std::size_t>(experts * rows),
                    half = static_cast<std::size_t>(rows / 2);
  Row out(values.size());
  for (std::size_t r = 0; r < values.size() / width; ++r) {
    const std::size_t e = r / (2 * half), j = r % (2 * half), to = j / 2 + (j % 2) * half;
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(r * width), width,
                out.begin() + static_cast<std::ptrdiff_t>((e * 2 * half + to) * width));
  }
  return out;
}

/// The choices that are left, of an id of -1 where there is no place.
inline Routed kept_choices(const LayerCase& c, const LayerInputs& in) {
  if (c.expert_choice) {
    const double mean = static_cast<double>(c.tokens) / c.experts;
    const int rows =
        std::min(c.tokens, static_cast<int>(std::ceil(c.expert_choice->factor * mean)));
    const ChosenTokens choice = expert_choice(in.logits.to_doubles(), c.experts, rows);
    const auto choices = static_cast<std::size_t>(c.tokens * c.experts);
    Routed routed{c.experts, std::vector<int>(choices, -1), Row(choices)};
    for (std::size_t i = 0; i < choice.tokens.size(); ++i) {
      const int e = static_cast<int>(i) / rows, at = choice.tokens[i] * c.experts + e;
      routed.ids[static_cast<std::size_t>(at)] = e;
      routed.weights[static_cast<std::size_t>(at)] = choice.gates[i];
    }
    return routed;
  }
  Routed routed = route(c.scheme, in.logits.to_doubles(), c.experts);
  routed = with_shared(routed, {.experts = c.experts, .shared = c.shared});
  if (!c.capacity) return routed;
  const Placement placed =
      place(routed, c.experts + c.shared,
            {.rows = c.capacity->rows.value(),
             .priority = c.capacity->by_slot ? Priority::slot_major : Priority::token_major,
             .group = c.capacity->group_tokens > 0 ? c.capacity->group_tokens : c.tokens});
  for (std::size_t i = 0; i < routed.ids.size(); ++i)
    if (placed.row_of[i] < 0) routed.ids[i] = -1;
  return routed;
}

inline LayerTensors reference_tensors(const LayerCase& c, const LayerInputs& in) {
  const auto of = [](const Tensor& t) { return t.defined() ? t.to_doubles() : Row(); };
  LayerTensors p{of(in.X), of(in.weights.up), of(in.weights.down), of(in.weights.up_bias),
                 of(in.weights.down_bias)};
  if (!c.is_interleaved) return p;
  const int all = c.experts + c.shared;
  p.up = gates_first(p.up, all, c.up_rows());
  if (c.has_biases) p.up_bias = gates_first(p.up_bias, all, c.up_rows());
  return p;
}

inline void expect_outputs(const LayerCase& c, const LayerInputs& in, const Tensor& Y) {
  HostLayer layer({c.tokens, c.h, c.i, c.experts + c.shared}, c.host_activation);
  layer.round = [&](double x) { return rounded(x, c.dtype); };
  const LayerTensors p = reference_tensors(c, in);
  const Routed routed = kept_choices(c, in);
  const Row got = Y.to_doubles();
  const Row want = c.scales_inputs ? layer.forward_scaled(p, routed) : layer.forward(p, routed);
  ASSERT_EQ(got.size(), want.size());
  // Values stored between the products may round to a neighbour, of numbers around 1.
  const double unit = c.dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  double error = 0, size = 0;
  for (std::size_t n = 0; n < got.size(); ++n) {
    ASSERT_NEAR(got[n], want[n], 6 * unit * (1 + std::abs(want[n])))
        << n / static_cast<std::size_t>(c.h) << ", " << n % static_cast<std::size_t>(c.h);
    error += (got[n] - want[n]) * (got[n] - want[n]), size += want[n] * want[n];
  }
  EXPECT_LE(std::sqrt(error), unit * std::sqrt(size));
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
