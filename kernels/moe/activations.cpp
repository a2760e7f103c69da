// Activations of experts and their derivatives.
#include <numbers>

#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

namespace tegula {

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
                const Tile positive = max(x, 0.0f);
                return positive * positive;
              },
          .gradient = [](const Tile& x, const Tile&) -> std::array<Tile, 2> {
            return {max(x, 0.0f) * 2.0f, zeros<f32>(1)};
          }};
}

ExpertActivation clamped_swiglu(float limit, float alpha) {
  return {.is_gated = true,
          .value =
              [=](const Tile& g, const Tile& u) {
                const Tile gate = min(g, limit);
                return gate * sigmoid(gate * alpha) * (clamp(u, -limit, limit) + 1.0f);
              },
          .gradient = [=](const Tile& g, const Tile& u) -> std::array<Tile, 2> {
            const Tile gate = min(g, limit), s = sigmoid(gate * alpha), a = gate * s;
            const Tile dg = (clamp(u, -limit, limit) + 1.0f) * fma(a * alpha, 1.0f - s, s);
            return {where(g <= limit, dg, 0.0f), where(abs(u) <= limit, a, 0.0f)};
          }};
}

}  // namespace tegula
