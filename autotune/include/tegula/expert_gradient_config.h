#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "tegula/expert_config.h"

/// Tiles of the GEMMs in the backward pass of a mixture of experts.
namespace tegula {

/// GEMMs of an expert's backward pass: gradients of a GEMM's input rows, and of its weights.
enum class ExpertGradient : std::uint8_t { rows, weights };
constexpr auto enumerator_names(ExpertGradient) {
  return std::array<std::string_view, 2>{"rows", "weights"};
}

/// Properties of such a GEMM, [m, k] by [k, n] per expert, that determine the choice of its tiles.
/// The dimension along the expert's rows (m for `rows`, k for `weights`) is a mean over experts.
struct ExpertGradientProblem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t experts = 1;
  ExpertGradient gradient = ExpertGradient::rows;
  DType operands = DType::bf16;

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("m", p.m);
    visit("n", p.n);
    visit("k", p.k);
    visit("experts", p.experts);
    visit("gradient", p.gradient);
    visit("operands", p.operands);
  }
  friend bool operator==(const ExpertGradientProblem&, const ExpertGradientProblem&) = default;
};

/// Returns the configuration that the model chooses; `swap_ab` is never set.
ExpertTileConfig choose_gradient_tiles(const ExpertGradientProblem& problem,
                                       const DeviceProfile& gpu);
/// Returns the decision of a call on a device: a tuned winner for this problem or a near one, else
/// the model's choice.
ExpertTileConfig choose_gradient_tiles(const ExpertGradientProblem& problem, Device device);

}  // namespace tegula
