#pragma once
// Makespan of a persistent kernel whose tiles differ in work, by the order in which programs get
// them: a model, without a GPU.
#include <cstdint>
#include <span>
#include <vector>

namespace tegula {

/// Assignment of tiles to programs.
enum class TileSchedulerKind : std::uint8_t {
  static_,  ///< beforehand, two neighbours at a time, there and back (ir/passes/make_persistent)
  counter,  ///< whoever is free takes the next one (plan.dynamic_scheduler)
};

/// In which order the tiles of all heads come.
enum class TileOrderKind : std::uint8_t {
  balanced_pairs,  ///< head by head, alternately from both ends of the queries: `balanced_pairs`
  lpt_per_head,    ///< head by head, tiles with most kv blocks first
  lpt,             ///< tiles with most kv blocks first, over all heads
};

/// Times of all tiles: their kv blocks and one more. `steps`: kv blocks of the tiles of one head,
/// in order of their queries; `matrices`: heads of all entries of a batch.
std::vector<std::int64_t> tile_times(std::span<const std::int64_t> steps, std::int64_t matrices,
                                     TileOrderKind ordering);

/// Time at which the last of `programs` ends.
std::int64_t makespan(std::span<const std::int64_t> times, int programs,
                      TileSchedulerKind scheduler);

/// Ratio of the makespan to an even share of all work, or to the longest tile if that is more: at
/// least 1.
double makespan_ratio(std::span<const std::int64_t> times, int programs,
                      TileSchedulerKind scheduler);

}  // namespace tegula
