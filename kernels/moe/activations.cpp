// Activations of experts.
#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

ExpertActivation swiglu() {
  return {.is_gated = true, .value = [](const Tile& g, const Tile& u) { return silu(g) * u; }};
}

ExpertActivation geglu() {
  return {.is_gated = true, .value = [](const Tile& g, const Tile& u) { return gelu(g) * u; }};
}

ExpertActivation relu_squared() {
  return {.is_gated = false, .value = [](const Tile& x, const Tile&) {
            const Tile positive = max(x, 0.0f, Nan::propagate);
            return with_gradient(positive * positive, x, positive * 2.0f);
          }};
}

ExpertActivation clamped_swiglu(float limit, float alpha) {
  // NaN propagates in both directions: a numeric clamp would turn it into `limit`. Numbers at a
  // limit are not clamped, so they have the slope of those below it.
  return {.is_gated = true, .value = [=](const Tile& g, const Tile& u) {
            const Tile gate = min(g, limit, Nan::propagate), s = sigmoid(gate * alpha),
                       a = gate * s,
                       factor = min(max(u, -limit, Nan::propagate), limit, Nan::propagate) + 1.0f,
                       by_gate = factor * fma(a * alpha, 1.0f - s, s);
            const Tile value = with_gradient(a * factor, g, where(g > limit, 0.0f, by_gate));
            return with_gradient(value, u, where(abs(u) > limit, 0.0f, a));
          }};
}

}  // namespace tegula::kernels
