#pragma once
// SwiGLU and GEGLU against references in double; gradients against difference quotients.
#include <numbers>

#include "tegula/kernels/gated_activation.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {

inline double activation_of(GateActivation activation, double x) {
  if (activation == GateActivation::silu) return x / (1 + std::exp(-x));
  if (activation == GateActivation::gelu) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

inline double slope_of(GateActivation activation, double x) {
  constexpr double kStep = 1e-5;
  return (activation_of(activation, x + kStep) - activation_of(activation, x - kStep)) /
         (2 * kStep);
}

/// `are_halves`: gate and up are columns of one tensor, as a fused projection gives them.
inline void check_gated(GateActivation activation, const Dims& shape, DType dtype, Device device,
                        bool is_aligned, bool are_halves) {
  const Stream stream(device);
  const auto normal = [&](std::uint64_t seed) {
    return random_rows(shape, dtype, seed, device, is_aligned);
  };
  const auto fresh = [&] { return unwritten_rows(shape, dtype, device, is_aligned); };
  const std::int64_t columns = shape[1];
  const Tensor both = random_rows({shape[0], 2 * columns}, dtype, 1, device, is_aligned);
  const Tensor gate = are_halves ? both.slice(1, 0, columns) : normal(2),
               up = are_halves ? both.slice(1, columns, 2 * columns) : normal(3), dy = normal(4);
  const Tensor y = fresh(), dgate = fresh(), dup = fresh();
  gated_activation(stream, activation, gate, up, y);
  gated_activation_backward(stream, activation, gate, up, dy, dgate, dup);
  const Doubles x = gate.to_doubles(), u = up.to_doubles(), g = dy.to_doubles();
  Doubles want, want_gate, want_up;
  for (std::size_t i = 0; i < x.size(); ++i) {
    want.push_back(activation_of(activation, x[i]) * u[i]);
    want_gate.push_back(slope_of(activation, x[i]) * u[i] * g[i]);
    want_up.push_back(activation_of(activation, x[i]) * g[i]);
  }
  expect_elements(y, want);
  expect_elements(dgate, want_gate);
  expect_elements(dup, want_up);
}

inline void check_gated_activations(Device device) {
  const std::vector<Dims> shapes{{1, 1}, {0, 64}, {67, 7}, {6, 100}, {3, 2048}, {4, 3001}};
  for (const GateActivation activation :
       {GateActivation::silu, GateActivation::gelu, GateActivation::gelu_tanh})
    for (const bool are_halves : {false, true})
      for_row_shapes(
          shapes, [&](std::int64_t rows, std::int64_t columns, DType dtype, bool is_aligned) {
            check_gated(activation, {rows, columns}, dtype, device, is_aligned, are_halves);
          });
}

}  // namespace tegula::test
