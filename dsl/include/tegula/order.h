#pragma once

#include "tegula/tile_ops.h"

/// Ordering and counting: sorts, best k, ranks and histograms. All are stable and deterministic.
namespace tegula {

/// Order of sorted elements.
enum class Direction : std::uint8_t {
  ascending,   ///< smallest first
  descending,  ///< largest first
};

/// Sorted elements, and the original index of each of them along the axis (i32).
struct Sorted {
  Tile values, indices;  ///< two tiles of one shape
};

/// Sorts the elements along a dimension of up to 32768. Equal elements keep their order in either
/// direction. -0 equals +0 and is returned as +0. In either direction NaN comes after all numbers,
/// and absent elements come after NaN and stay absent. Throws CompileError for pointers (T1013),
/// scalars (T0209) and longer dimensions (T1014).
Tile sort(const Arg& t, Axis axis = -1, Direction direction = Direction::ascending);
/// Returns the original indices of the elements of the sorted tile (i32).
Tile argsort(const Arg& t, Axis axis = -1, Direction direction = Direction::ascending);
/// Returns both.
Sorted sort_with_indices(const Arg& t, Axis axis = -1, Direction direction = Direction::ascending);
/// Returns the first `k` elements of the sorted tile, the best one first, 1 <= k <= extent; of
/// equal elements those with the smallest indices. If fewer are present, the rest is absent. Throws
/// CompileError for another k (T1015).
Sorted topk(const Arg& t, int k, Axis axis = -1, Direction direction = Direction::descending);

/// Ranks: number of equal keys before each key in row-major order (i32, of the keys' shape; -1 for
/// keys outside [0, bins)). Counts: number of keys in each bin (i32, [bins]).
struct Ranks {
  Tile ranks, counts;  ///< i32
};
/// `keys`: integers of any shape; absent ones are not counted, and have no rank. Throws
/// CompileError for other keys (T1016) and for more than 4096 bins (T1017).
Ranks key_ranks(const Arg& keys, int bins);
/// Returns only the counts.
Tile histogram(const Arg& keys, int bins);

}  // namespace tegula
