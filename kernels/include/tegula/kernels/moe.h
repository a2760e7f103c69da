#pragma once
#include <array>
#include <compare>
#include <functional>

#include "tegula/kernel.h"
#include "tegula/tensor.h"
#include "tegula/value.h"

/// Layers of a mixture of experts.
namespace tegula {

/// a(gate, up) of an expert, on f32 tiles. Without a gate `up` is the same tile as `gate`.
struct ExpertActivation {
  bool is_gated = true;
  std::function<Tile(const Tile& gate, const Tile& up)> value;
  /// Partial derivatives by gate and up, for backward.
  std::function<std::array<Tile, 2>(const Tile& gate, const Tile& up)> gradient = {};
};
/// silu(gate) * up (Shazeer 2020).
ExpertActivation swiglu();
/// gelu(gate) * up.
ExpertActivation geglu();
/// max(x, 0)^2, without a gate (So et al. 2021).
ExpertActivation relu_squared();
/// gpt-oss: gate to at most `limit`, up to +- `limit`, gate * sigmoid(alpha * gate) * (up + 1).
ExpertActivation clamped_swiglu(float limit = 7, float alpha = 1.702f);

/// Tiles of the experts' GEMMs: bm rows, bn outputs, k-iterations of bk.
struct ExpertTileConfig {
  int bm = 128;  ///< 16, 32, 64, 128 or 256
  int bn = 128, bk = 64;
  /// Outputs lie along the rows of the tensor cores' tiles: for few rows an expert. bn is then a
  /// multiple of 64.
  bool swap_ab = false;
  int stages = 0;   ///< of the operand ring; 0: the compiler chooses
  int group_m = 8;  ///< tiles below each other that are finished together

  template <class Config, class Visit>
  static void visit_axes(Config& v, const Visit& visit) {
    visit("BM", v.bm, {16, 32, 64, 128, 256});
    visit("BN", v.bn, {64, 128, 192, 256});
    visit("BK", v.bk, {32, 64, 128});
    visit("SWAP_AB", v.swap_ab, {0, 1});
    visit("STAGES", v.stages, {0, 2, 3, 4, 5, 6, 7, 8});
    visit("GROUP_M", v.group_m, {1, 2, 4, 8, 16});
  }
  friend auto operator<=>(const ExpertTileConfig&, const ExpertTileConfig&) = default;
};

}  // namespace tegula
