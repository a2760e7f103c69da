#include "kernels/attention/block_sizes.h"

#include <algorithm>

namespace tegula {
namespace {

constexpr int kStep = 16, kMaxKeys = 128, kCostlyKeys = 64, kRows = 128, kBytes = 2;
/// As ir/passes/plan.cpp has it: of 232 registers a thread, 40 are for rows' state and addresses.
constexpr int kRegisters = 232 - 40;
/// Of the 227 KiB of a CTA, less what mbarriers and alignment take.
constexpr int kSharedBytes = 225 * 1024, kSlots = 2;

}  // namespace

int padded_head_dim(int dim) { return (dim + kStep - 1) / kStep * kStep; }

AttentionTiles attention_tiles(const TileNeeds& needs) {
  const int dim = padded_head_dim(needs.dim), value_dim = padded_head_dim(needs.value_dim);
  // A thread of 8 warps: scores (keys / 2), two steps' weights in 16 bits (keys / 2), the output.
  // Where that leaves none free, what finds the next block needs some, and so do positions.
  const bool is_full = value_dim > kMaxKeys;
  const int others = needs.has_gaps + needs.score.of_position;
  const int by_registers = kRegisters - value_dim / 2 - (is_full ? others * kStep : 0);
  const int by_shared =
      (kSharedBytes - kRows * dim * kBytes) / (kSlots * (dim + value_dim) * kBytes);
  const int costly = is_full ? kCostlyKeys / 2 : kCostlyKeys;
  const int most = needs.score.of_element ? costly : kMaxKeys;
  return {kRows, std::min({most, by_registers, by_shared}) / kStep * kStep};
}

}  // namespace tegula
