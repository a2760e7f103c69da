#pragma once
// Model of the makespan of a persistent kernel with unequal tiles, by the order in which programs
// receive tiles. Needs no GPU.
#include <cstdint>
#include <span>
#include <vector>

namespace tegula {

/// Assignment of tiles to programs.
enum class TileSchedulerKind : std::uint8_t {
  static_,  ///< static, two neighbours at a time, in serpentine order (ir/passes/make_persistent)
  counter,  ///< a free program takes the next tile (plan.dynamic_scheduler)
};

/// Order of the tiles of all heads.
enum class TileOrderKind : std::uint8_t {
  balanced_pairs,  ///< head by head, alternately from both ends of the queries: `balanced_pairs`
  lpt_per_head,    ///< head by head, tiles with the most kv blocks first
  lpt,             ///< tiles with the most kv blocks first, over all heads
};

/// Returns the time of each tile: its number of kv blocks plus one. `steps`: kv blocks of the tiles
/// of one head, by query; `matrices`: heads of all batch entries.
std::vector<std::int64_t> tile_times(std::span<const std::int64_t> steps, std::int64_t matrices,
                                     TileOrderKind ordering);

/// Returns the time at which the last of `programs` ends.
std::int64_t makespan(std::span<const std::int64_t> times, int programs,
                      TileSchedulerKind scheduler);

/// Returns the makespan relative to an even share of all work, or to the longest tile if that is
/// more. The result is at least 1.
double makespan_ratio(std::span<const std::int64_t> times, int programs,
                      TileSchedulerKind scheduler);

}  // namespace tegula
