#include "tegula/attention_tiles.h"

#include <algorithm>

#include "ir/analysis/tma_access.h"

namespace tegula {
namespace {

constexpr int kStep = 16, kMaxKeys = 128, kMaxWideKeys = 224, kCostlyKeys = 64, kUsualRows = 128,
              kBytes = 2;
/// Rows of tiles of three warpgroups, and registers for two-sided key bounds.
constexpr int kTallRows = 192, kLimits = 12;
constexpr int kWarps = 8, kTallWarps = 12, kSlots = 2;
/// Registers for the state of rows and for addresses, and registers that a producer thread uses.
constexpr int kState = 40, kTallState = 32, kProducer = 40;

/// Registers of a thread for accumulators and weights: with a producer of kProducer registers, with
/// a producer of the minimum, and in tall tiles. Older targets use the tiles of the host's profile,
/// too.
int registers_for_sums() { return host_profile().consumer_registers(kWarps, kProducer) - kState; }
int all_registers_for_sums() { return host_profile().consumer_registers(kWarps) - kState; }
int tall_registers_for_sums() { return host_profile().consumer_registers(kTallWarps) - kTallState; }

/// Returns the bytes of a head's row in shared memory. Rows, heads and sequences of a dense tensor
/// are multiples of the head dim apart.
int row_bytes(int dim) {
  const bool whole_sectors = dim % padded_head_dim(1) == 0;
  const int row = padded_head_dim(dim) * kBytes;
  return static_cast<int>(ir::tma_segments(row, dim * kBytes, whole_sectors).bytes());
}

}  // namespace

int padded_head_dim(int dim) { return (dim + kStep - 1) / kStep * kStep; }

int keys_by_shared(int dim, int head_dim_v, int rows, int pair_bytes) {
  const int bytes = static_cast<int>(host_profile().ring_bytes());
  return (bytes - rows * row_bytes(dim)) /
         (kSlots * (row_bytes(dim) + row_bytes(head_dim_v) + rows * pair_bytes));
}

int keys_of_paired_ctas(int dim, int head_dim_v) {
  constexpr int kPairedStages = 3;
  const ir::TargetRow& target = *ir::Target::of_capability(host_profile().capability);
  const int bytes = static_cast<int>(target.shared_bytes_per_sm / 2 - target.shared_bytes_reserved),
            exchanged = kSmallQBlock * padded_head_dim(std::max(dim, head_dim_v)) * kBytes,
            of_key = (padded_head_dim(dim) + padded_head_dim(head_dim_v)) * kBytes;
  return (bytes - exchanged) / (kPairedStages * of_key) / kStep * kStep;
}

TileRequirements requirements_of(const AttentionProblem& p) {
  TileRequirements needs{p.head_dim, p.head_dim_v, {}, p.is_non_contiguous, p.has_score};
  needs.score.reads_kv_index = p.reads_kv_index;
  needs.score.has_per_element_state = p.has_per_element_state;
  needs.score.is_toeplitz = p.is_toeplitz;
  needs.score.tma_bytes_per_element = p.tma_bytes_per_element;
  needs.score.needs_row_scan = p.needs_row_scan;
  return needs;
}

AttentionTileShape attention_tiles(const TileRequirements& needs) {
  const int head_dim_v = padded_head_dim(needs.head_dim_v);
  // Registers of a thread of 8 warps: scores (block_kv / 2), two blocks of P in 16 bits (block_kv /
  // 2) and the output accumulator. If none are left, the search for the next block and the
  // positions need additional ones.
  const bool is_full = head_dim_v > kMaxKeys;
  const int others = needs.is_non_contiguous + needs.score.reads_kv_index, spare = is_full ? 0 : 1;
  const int costly = kCostlyKeys / (is_full ? 2 : 1) / (needs.score.needs_row_scan ? 2 : 1);
  int by_registers = registers_for_sums() - head_dim_v / 2 - std::max(others - spare, 0) * kStep;
  // A score that lanes compute for each other needs some registers, but fewer than one per element.
  if (needs.score.is_toeplitz)
    by_registers =
        std::max(by_registers - (is_full ? 2 : 1) * kStep, std::min(by_registers, costly));
  const int by_shared = keys_by_shared(needs.dim, needs.head_dim_v, kUsualRows, 0);
  const int most = needs.score.has_per_element_state ? costly : kMaxKeys;
  return {kUsualRows, std::min({most, by_registers, by_shared}) / kStep * kStep};
}

AttentionTileShape large_n_tiles(const TileRequirements& needs) {
  const int head_dim_v = padded_head_dim(needs.head_dim_v);
  // Registers: scores (block_kv / 2), one block of P in 16 bits (block_kv / 4), the output
  // accumulator.
  const int by_registers = (all_registers_for_sums() - head_dim_v / 2) * 4 / 3;
  return {kUsualRows, std::min({kMaxWideKeys, by_registers,
                                keys_by_shared(needs.dim, needs.head_dim_v, kUsualRows, 0)}) /
                          kStep * kStep};
}

AttentionTileShape three_warpgroup_tiles(const TileRequirements& needs, KvExtent kv_extent) {
  const int head_dim_v = padded_head_dim(needs.head_dim_v);
  // Registers as in large_n_tiles(): scores (block_kv / 2), one block of P in 16 bits (block_kv /
  // 4), the output accumulator.
  const int limits = kv_extent != KvExtent::unknown ? 0 : needs.has_score ? 2 * kLimits : kLimits;
  const int left = tall_registers_for_sums() - head_dim_v / 2 - limits;
  const int by_registers = left * 4 / 3,
            by_shared = keys_by_shared(needs.dim, needs.head_dim_v, kTallRows, 0);
  const bool is_costly = needs.score.has_per_element_state || needs.score.is_toeplitz;
  const int most = is_costly ? kCostlyKeys : kMaxKeys;
  return {kTallRows, std::min({most, by_registers, by_shared}) / kStep * kStep};
}

AttentionTileShape tma_bias_tiles(const TileRequirements& needs) {
  constexpr int kOfF32 = 4;
  TileRequirements others = needs;
  others.score.has_per_element_state = false;
  const AttentionTileShape all = attention_tiles(others);
  const int bytes = needs.score.tma_bytes_per_element,
            head_dim_v = padded_head_dim(needs.head_dim_v);
  // 32-bit score terms take as many registers as the accumulator to which they are added; 16-bit
  // terms fit in without extra registers.
  const int by_registers =
      bytes < kOfF32 ? all.block_kv
                     : (registers_for_sums() - head_dim_v / 2) * kOfF32 / (kOfF32 + bytes / 2);
  const int by_shared = keys_by_shared(needs.dim, needs.head_dim_v, kUsualRows, bytes);
  return {kUsualRows, std::min({all.block_kv, by_registers, by_shared}) / kStep * kStep};
}

}  // namespace tegula
