#pragma once
// SwiGLU and GEGLU against references in double; gradients against difference quotients.
#include <numbers>

#include "tegula/kernels/gated_activation.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

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

/// Derivatives by their formulas, which in double neither overflow nor meet 0 times infinity.
inline double exact_slope_of(GateActivation activation, double x) {
  if (activation == GateActivation::silu) {
    const double s = 1 / (1 + std::exp(-x));
    return s + x * s * (1 - s);
  }
  if (activation == GateActivation::gelu)
    return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
           x * std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const double scale = std::sqrt(2 / std::numbers::pi),
               t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t + x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x));
}

/// Numbers of any size have their values and slopes, NaN is NaN in all results, and infinity
/// stays infinity.
inline void check_gated_extremes(Device device) {
  Doubles values{0.0, -0.0, std::nan(""), INFINITY};
  for (const double size :
       {1e-40, 1e-20, 1e-3, 5.0, 12.0, 88.0, 89.0, 200.0, 1e4, 1e10, 3e18, 3e19, 1e30, 3e38})
    values.push_back(size), values.push_back(-size);
  const Dims shape{1, static_cast<std::int64_t>(values.size())};
  const Tensor gate = Tensor::from(values, shape, Device::cpu()).cast(DType::f32).to(device),
               ones = Tensor::full(shape, 1, DType::f32, device),
               y = unwritten_rows(shape, DType::f32, device), dgate = y.clone(), dup = y.clone();
  for (const GateActivation activation :
       {GateActivation::silu, GateActivation::gelu, GateActivation::gelu_tanh}) {
    SCOPED_TRACE(static_cast<int>(activation));
    gated_activation(Stream(device), activation, gate, ones, y);
    gated_activation_backward(Stream(device), activation, gate, ones, ones, dgate, dup);
    Doubles want, slopes;
    for (const double x : gate.to_doubles()) {
      want.push_back(activation_of(activation, x));
      slopes.push_back(exact_slope_of(activation, x));
    }
    expect_elements(y, want);
    expect_elements(dgate, slopes);
    expect_elements(dup, want);
  }
}

inline void check_gated_activations(Device device) {
  const std::vector<Dims> shapes{{1, 1}, {0, 64}, {5, 0}, {67, 7}, {6, 100}, {3, 2048}, {4, 3001}};
  for (const GateActivation activation :
       {GateActivation::silu, GateActivation::gelu, GateActivation::gelu_tanh})
    for (const bool are_halves : {false, true})
      for_row_shapes(
          shapes, [&](std::int64_t rows, std::int64_t columns, DType dtype, bool is_aligned) {
            check_gated(activation, {rows, columns}, dtype, device, is_aligned, are_halves);
          });
}

}  // namespace tegula::test
