#pragma once

#include "tegula/tile_ops.h"

/// Order and counting: sorts, the best k, ranks and histograms. All are stable and deterministic.
namespace tegula {

enum class Direction : std::uint8_t { ascending, descending };

/// Sorted elements and, of each of them, the index along the axis (i32) where it stood.
struct Sorted {
  Tile values, indices;
};

/// The elements along a dimension of up to 32768, in order. Equal elements keep their order in
/// either direction. -0 equals +0 and comes back as +0; NaN stands behind all numbers in either
/// direction; absent elements behind NaN, and stay absent there. CompileError: pointers, scalars,
/// longer dimensions.
Tile sort(const Arg& t, Axis axis = -1, Direction direction = Direction::ascending);
/// The indices at which the elements of the sorted tile stood (i32).
Tile argsort(const Arg& t, Axis axis = -1, Direction direction = Direction::ascending);
Sorted sort_with_indices(const Arg& t, Axis axis = -1, Direction direction = Direction::ascending);
/// The first `k` elements of the sorted tile, the best one first, 1 <= k <= extent; of equal
/// elements those with the smallest indices. If fewer are present, the rest is absent.
Sorted topk(const Arg& t, int k, Axis axis = -1, Direction direction = Direction::descending);

/// Ranks: how many equal keys stand before each one in row-major order (i32, of the keys' shape; -1
/// for keys outside [0, bins)). Counts: how many there are of each (i32, [bins]).
struct Ranks {
  Tile ranks, counts;
};
/// `keys`: integers of any shape; absent ones are not counted, and have no rank. At most 4096 bins:
/// CompileError.
Ranks key_ranks(const Arg& keys, int bins);
/// The counts alone.
Tile histogram(const Arg& keys, int bins);

}  // namespace tegula
