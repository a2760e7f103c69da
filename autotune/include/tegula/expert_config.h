#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"

/// Tiles of the GEMMs of a mixture of experts.
namespace tegula {

/// Tiles of the experts' GEMMs: bm rows, bn outputs, k-iterations of bk.
struct ExpertTileConfig {
  int bm = 128;  ///< at most 256; a multiple of 64, or of 8 with `swap_ab`
  int bn = 128, bk = 64;
  /// Outputs are along the rows of the MMA tiles, so that bm can match the number of rows that most
  /// experts have. bn must then be a multiple of 64.
  bool swap_ab = false;
  int stages = 0;   ///< slots of the operand ring; 0: the compiler chooses
  int group_m = 8;  ///< adjacent rows of tiles that are finished together
  /// The up GEMM gathers the tokens' rows itself instead of reading permuted rows.
  bool gathers = false;
  /// Two CTAs with vertically adjacent tiles form a cluster and share the loads of an expert's
  /// weights. Ignored for tiles that leave room for a second CTA on an SM.
  bool multicast = false;

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("bm", c.bm);
    visit("bn", c.bn);
    visit("bk", c.bk);
    visit("swap_ab", c.swap_ab);
    visit("stages", c.stages);
    visit("group_m", c.group_m);
    visit("gathers", c.gathers);
    visit("multicast", c.multicast);
  }
  friend auto operator<=>(const ExpertTileConfig&, const ExpertTileConfig&) = default;
};

/// The two GEMMs of an expert.
enum class ExpertProduct : std::uint8_t { up, down };
constexpr auto enumerator_names(ExpertProduct) {
  return std::array<std::string_view, 2>{"up", "down"};
}

/// Properties of a grouped GEMM that determine the choice of its tiles. The host knows only the
/// mean number of rows per expert.
struct ExpertProblem {
  std::int64_t rows = 0;  ///< mean per expert
  std::int64_t columns = 0, k = 0;
  std::int64_t experts = 1;  ///< experts that may have rows
  ExpertProduct product = ExpertProduct::up;
  DType operands = DType::bf16;
  bool is_gated = false;  ///< bn counts the columns of each of the two matrices
  /// Experts per token if rows can be gathered from the tokens' rows; else 0.
  std::int64_t choices = 0;
  DType result = DType::bf16;  ///< type that the GEMM stores; the up GEMM may store f8
  /// Two accumulators per tile, for FP32 promotion.
  bool fp32_promotion = false;

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("rows", p.rows);
    visit("columns", p.columns);
    visit("k", p.k);
    visit("experts", p.experts);
    visit("product", p.product);
    visit("operands", p.operands);
    visit("is_gated", p.is_gated);
    visit("choices", p.choices);
    visit("result", p.result);
    visit("fp32_promotion", p.fp32_promotion);
  }
  friend bool operator==(const ExpertProblem&, const ExpertProblem&) = default;
};

/// Returns the configuration that the model chooses.
ExpertTileConfig choose_expert_tiles(const ExpertProblem& problem, const DeviceProfile& gpu);
/// Returns the decision of a call on a device: a tuned winner for this problem or a near one, else
/// the model's choice.
ExpertTileConfig choose_expert_tiles(const ExpertProblem& problem, Device device);

}  // namespace tegula
