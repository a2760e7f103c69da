// Activations of experts and their derivatives.
#include <numbers>

#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

ExpertActivation swiglu() {
  return {.is_gated = true,
          .value = [](const Tile& g, const Tile& u) { return silu(g) * u; },
          .gradient = [](const Tile& g, const Tile& u) -> std::array<Tile, 2> {
            const Tile s = sigmoid(g), a = g * s;
            return {u * (s + a * (1.0f - s)), a};
          }};
}

ExpertActivation geglu() {
  return {.is_gated = true,
          .value = [](const Tile& g, const Tile& u) { return gelu(g) * u; },
          .gradient = [](const Tile& g, const Tile& u) -> std::array<Tile, 2> {
            constexpr float kInvSqrt2Pi =
                0.5f * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
            const Tile cdf = 0.5f + 0.5f * erf(g * (std::numbers::sqrt2_v<float> / 2)),
                       pdf = exp(g * g * -0.5f) * kInvSqrt2Pi;
            return {u * fma(g, pdf, cdf), g * cdf};
          }};
}

ExpertActivation relu_squared() {
  return {.is_gated = false,
          .value =
              [](const Tile& x, const Tile&) {
                const Tile positive = max(x, 0.0f, Nan::propagate);
                return positive * positive;
              },
          .gradient = [](const Tile& x, const Tile&) -> std::array<Tile, 2> {
            return {max(x, 0.0f, Nan::propagate) * 2.0f, zeros<f32>(1)};
          }};
}

ExpertActivation clamped_swiglu(float limit, float alpha) {
  // NaN propagates in both directions: a numeric clamp would turn it into `limit`.
  const auto gate_of = [=](const Tile& g) { return min(g, limit, Nan::propagate); };
  const auto factor_of = [=](const Tile& u) {
    return min(max(u, -limit, Nan::propagate), limit, Nan::propagate) + 1.0f;
  };
  return {.is_gated = true,
          .value =
              [=](const Tile& g, const Tile& u) {
                const Tile gate = gate_of(g);
                return gate * sigmoid(gate * alpha) * factor_of(u);
              },
          .gradient = [=](const Tile& g, const Tile& u) -> std::array<Tile, 2> {
            const Tile gate = gate_of(g), s = sigmoid(gate * alpha), a = gate * s;
            const Tile dg = factor_of(u) * fma(a * alpha, 1.0f - s, s);
            return {where(g > limit, 0.0f, dg), where(abs(u) > limit, 0.0f, a)};
          }};
}

}  // namespace tegula::kernels
