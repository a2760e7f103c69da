#pragma once
// Weights of 8 bits with their scales, and the values that rows of 8 bits represent.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "tegula/kernels/moe.h"
#include "tegula/kernels/quantise.h"
#include "tests/differential/moe/routing_reference.h"

namespace tegula::test::experts {
using namespace kernels;

/// Given scales of X and of activations, both around 1: the largest numbers saturate.
inline constexpr f32 kInputScale = 0.006f, kHiddenScale = 0.004f;

/// Weights [experts, rows, columns] by rows.
inline void quantise_by_row(Tensor& weights, Tensor& scales) {
  const std::int64_t rows = weights.size(0) * weights.size(1);
  const Tensor q = Tensor::empty(weights.shape(), DType::f8e4m3, weights.device());
  scales = Tensor::empty({weights.size(0), weights.size(1)}, DType::f32, weights.device());
  quantise_fp8(Stream(weights.device()), weights.reshape({rows, weights.size(2)}),
               q.reshape({rows, weights.size(2)}), scales.reshape({rows}));
  weights = q;
}
/// By experts, whose scales differ, on the host.
inline void quantise_by_expert(Tensor& weights, Tensor& scales) {
  const Doubles values = weights.to_doubles();
  std::vector<f32> scaled, of_experts;
  const std::size_t each = values.size() / static_cast<std::size_t>(weights.size(0));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % each == 0) of_experts.push_back(0.01f + 0.001f * static_cast<f32>(i / each % 7));
    scaled.push_back(static_cast<f32>(values[i]) / of_experts.back());
  }
  weights = Tensor::from(scaled, weights.shape(), weights.device()).cast(DType::f8e4m3);
  scales = Tensor::from(of_experts, weights.device());
}
inline void quantise(MoeWeights& w, ExpertScaling scaling) {
  const bool by_row = scaling == ExpertScaling::row;
  (by_row ? quantise_by_row : quantise_by_expert)(w.up, w.scales.up);
  (by_row ? quantise_by_row : quantise_by_expert)(w.down, w.scales.down);
  if (by_row) return;
  w.scales.input = Tensor::full({1}, kInputScale, DType::f32, w.up.device());
  w.scales.hidden = Tensor::full({1}, kHiddenScale, DType::f32, w.up.device());
}

/// Rows of `columns` values as 8 bits represent them: with the given scale, or that of the row.
inline void quantise_rows(Doubles& values, std::size_t columns, std::optional<f32> given) {
  for (std::size_t first = 0; first < values.size(); first += columns) {
    double largest = 0;
    for (std::size_t i = 0; i < columns; ++i)
      largest = std::max(largest, std::abs(values[first + i]));
    const auto top = static_cast<f32>(largest);
    const f32 scale = given      ? *given
                      : top == 0 ? 1
                                 : top * (1 / 448.0f),
              inverse = given      ? 1 / *given
                        : top == 0 ? 1
                                   : 448 / top;
    for (std::size_t i = first; i < first + columns; ++i)
      values[i] =
          static_cast<double>(static_cast<f32>(f8e4m3(static_cast<f32>(values[i]) * inverse))) *
          static_cast<double>(scale);
  }
}

/// Equal runs of `values` times a scale each.
inline void multiply(Doubles& values, const Doubles& scales) {
  const std::size_t each = values.size() / std::max<std::size_t>(scales.size(), 1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= scales[i / each];
}

}  // namespace tegula::test::experts
