#pragma once
// How long the programs of a persistent kernel take for tiles of different work, by the order in
// which they get them: a model, without a GPU.
#include <cstdint>
#include <span>
#include <vector>

namespace tegula {

/// Which program takes which tile.
enum class TileDeal : std::uint8_t {
  dealt,    ///< beforehand, two neighbours at a time, there and back (ir/passes/persist)
  counter,  ///< whoever is free takes the next one (plan.dynamic)
};

/// In which order the tiles of all heads come.
enum class TileOrdering : std::uint8_t {
  both_ends,     ///< head by head, from both ends of the queries in turn: `heavy_first`
  longest_each,  ///< head by head, those with most steps first
  longest_all,   ///< those with most steps first, whichever head they are of
};

/// Times of all tiles, which take their steps and one more. `steps`: of the tiles of one head, in
/// order of their queries; `matrices`: heads of all entries of a batch.
std::vector<std::int64_t> tile_times(std::span<const std::int64_t> steps, std::int64_t matrices,
                                     TileOrdering ordering);

/// When the last of `programs` has done.
std::int64_t schedule_length(std::span<const std::int64_t> times, int programs, TileDeal deal);

/// That over an even share of all work, or over the longest tile if that is more: at least 1.
double schedule_excess(std::span<const std::int64_t> times, int programs, TileDeal deal);

}  // namespace tegula
