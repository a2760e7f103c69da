#pragma once
// The named routing schemes compared with their references, for any number of experts, choices,
// tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tegula/kernels/moe.h"
#include "tests/differential/moe/routing_run.h"

namespace tegula::test::experts {
using namespace kernels;

struct SchemeCase {
  int experts = 8, k = 2, tokens = 16;
};

/// A router, and the choices that its reference makes of logits [tokens, experts].
struct SchemeInstance {
  Router router;
  std::function<Routed(const Doubles& logits)> reference;
};

struct NamedScheme {
  const char* name;
  int k = 0;               ///< the only number of choices; 0: any
  bool has_draws = false;  ///< the router has tensors for each token
  std::function<SchemeInstance(const SchemeCase&, Device)> make;

  bool has(const SchemeCase& c) const { return c.k <= c.experts && (k == 0 || k == c.k); }
};

inline SchemeInstance plain_scheme(Router router, Scheme scheme, const SchemeCase& c) {
  return {std::move(router), [scheme = std::move(scheme), experts = c.experts](const Doubles& z) {
            return route(scheme, z, experts);
          }};
}

inline SchemeInstance deepseek_v3_scheme(const SchemeCase& c, Device device, int groups) {
  const Tensor bias = Tensor::integers({c.experts}, DType::f32, -3, 4, 5, device);
  const int kept = std::max(1, groups / 2);
  return plain_scheme(routers::deepseek_v3(bias, {.k = c.k, .groups = groups, .kept_groups = kept}),
                      deepseek_v3(bias.to_doubles(), c.k, groups, kept), c);
}

inline SchemeInstance gshard_random_scheme(const SchemeCase& c, Device device) {
  std::vector<f32> draws;
  for (int t = 0; t < c.tokens; ++t) draws.push_back(static_cast<f32>(t % 8) / 8);
  const auto reference = [draws, experts = c.experts](const Doubles& z) {
    Routed r = route(gshard(), z, experts);
    for (std::size_t t = 0; t < draws.size(); ++t)
      if (draws[t] * 0.5 >= r.weights[2 * t + 1]) r.ids[2 * t + 1] = -1;
    return r;
  };
  return {routers::gshard_random(Tensor::from(draws, {c.tokens}, device), 0.5f), reference};
}

/// softplus(0) = log 2 as its noise level: no two sums are close.
inline SchemeInstance noisy_scheme(const SchemeCase& c, Device device) {
  const Dims shape{c.tokens, c.experts};
  const Tensor noise = Tensor::integers(shape, DType::f32, -3, 4, 7, device);
  const auto reference = [n = noise.to_doubles(), c](Doubles z) {
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += n[i] * std::log(2.0);
    return route(mixtral(c.k), z, c.experts);
  };
  return {routers::noisy_top_k(c.k, Tensor::zeros(shape, DType::f32, device), noise), reference};
}

inline const std::vector<NamedScheme>& named_schemes() {
  static const std::vector<NamedScheme> schemes{
      {.name = "mixtral",
       .make = [](const SchemeCase& c,
                  Device) { return plain_scheme(routers::mixtral(c.k), mixtral(c.k), c); }},
      {.name = "qwen3",
       .make = [](const SchemeCase& c,
                  Device) { return plain_scheme(routers::qwen3(c.k), qwen3(c.k), c); }},
      {.name = "deepseek_moe",
       .make =
           [](const SchemeCase& c, Device) {
             return plain_scheme(routers::deepseek_moe(c.k), deepseek_moe(c.k), c);
           }},
      {.name = "switch_transformer",
       .k = 1,
       .make = [](const SchemeCase& c,
                  Device) { return plain_scheme(routers::switch_transformer(), switched(), c); }},
      {.name = "llama4",
       .k = 1,
       .make = [](const SchemeCase& c,
                  Device) { return plain_scheme(routers::llama4(), llama4(), c); }},
      {.name = "gshard",
       .k = 2,
       .make = [](const SchemeCase& c,
                  Device) { return plain_scheme(routers::gshard(), gshard(), c); }},
      {.name = "gshard_random", .k = 2, .has_draws = true, .make = gshard_random_scheme},
      {.name = "deepseek_v3",
       .make =
           [](const SchemeCase& c, Device device) {
             const bool has_groups = c.experts % 8 == 0 && c.k <= c.experts / 2;
             return deepseek_v3_scheme(c, device, has_groups ? 8 : 1);
           }},
      {.name = "kimi_k2",
       .make = [](const SchemeCase& c, Device device) { return deepseek_v3_scheme(c, device, 1); }},
      {.name = "noisy_top_k", .has_draws = true, .make = noisy_scheme},
      {.name = "sqrt_softplus", .make = [](const SchemeCase& c, Device) {
         return plain_scheme(routers::sqrt_softplus(c.k),
                             {.k = c.k, .score = sqrt_softplus, .to_weights = renormalised}, c);
       }}};
  return schemes;
}

/// Routes by the layer's own launches; `capacity`: rows of an expert, -1 for any number.
inline void expect_values(const Moe& layer, const SchemeInstance& made, const SchemeCase& c,
                          Device device, int capacity = -1) {
  SCOPED_TRACE(testing::Message() << c.tokens << " tokens, " << c.experts << " experts, k " << c.k);
  const Tensor logits = few_logits({.tokens = c.tokens, .experts = c.experts}, 1, device);
  const MoeRouting r = layer.make_routing(c.tokens, device);
  for (const Tensor* t : {&r.ids, &r.row_of, &r.slot_of, &r.offsets, &r.first_tiles})
    t->copy_from(Tensor::full(t->shape(), -7, DType::i32, device));
  layer.route(Stream(device), logits, {}, r);
  const RoutedTensors got{r.ids, r.weights, r.row_of, r.slot_of, r.offsets, r.first_tiles};
  expect_routed(got, made.reference(logits.to_doubles()));
  expect_placed(got,
                {.tokens = c.tokens,
                 .experts = c.experts,
                 .capacity = capacity,
                 .up_rows = 128,
                 .down_rows = 128},
                c.k);
}

/// One scheme of so many experts and choices, for numbers of tokens; kernels are compiled once but
/// for routers that have tensors for each token.
inline void expect_scheme_values(const NamedScheme& scheme, SchemeCase c,
                                 const std::vector<int>& tokens, Device device, int capacity = -1) {
  SCOPED_TRACE(scheme.name);
  const auto make_layer = [&](const SchemeInstance& made) {
    MoeOptions o{.router = made.router, .experts = c.experts};
    if (capacity >= 0) o.capacity = ExpertCapacity{.rows = capacity};
    return moe(o);
  };
  std::optional<SchemeInstance> made;
  std::optional<Moe> layer;
  for (const int count : tokens) {
    c.tokens = count;
    if (!made || scheme.has_draws) made = scheme.make(c, device), layer = make_layer(*made);
    expect_values(*layer, *made, c, device, capacity);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace tegula::test::experts
