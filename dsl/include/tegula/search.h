#pragma once
#include <functional>

#include "tegula/order.h"
#include "tegula/view.h"

/// Searches in sorted elements, weighted counts, and compaction by a condition.
namespace tegula {

/// Position of a value relative to equal elements.
enum class Side : std::uint8_t {
  left,   ///< before them
  right,  ///< after them
};

namespace detail {
Tile searched(const Tile& length, const Arg& values, Side side,
              const std::function<Tile(const Tile& index)>& element);
}

/// Returns for each value (a scalar or a tile of any shape) the number of elements of `sorted` that
/// are smaller (left), or smaller or equal (right): i32, where the value would be inserted.
/// `sorted` is a tile of one dimension in ascending order; absent elements at its end are ignored.
/// A NaN is greater than all numbers. Throws CompileError for other ranks and for different types.
Tile searchsorted(const Arg& sorted, const Arg& values, Side side = Side::left);
/// Does the same in a tensor of any length, whose elements are read one by one: one read for each
/// bit of its length.
template <Element T>
Tile searchsorted(const In<T, 1>& sorted, const Arg& values, Side side = Side::left) {
  return detail::searched(cast<i32>(sorted.dim(0)), values, side,
                          [&](const Tile& index) { return sorted(index); });
}

/// Returns the sum of the weights of each key (of the weights' type, [bins]): a weighted histogram.
/// Keys are integers, weights have their shape or broadcast to it. Keys outside [0, bins), absent
/// keys and absent weights are ignored. Sums of floats are formed in the order of the elements, so
/// that they have the same bits in every run, for at most 32768 elements. Throws CompileError for
/// more elements or more than 4096 bins.
Tile bincount(const Arg& keys, const Arg& weights, int bins);

/// The kept elements, and their number along the axis (i32; a scalar for a tile of one
/// dimension).
struct Compacted {
  Tile values, count;  ///< `values` has the shape of the tile
};
/// Moves the elements for which `keep` (i1, of the tile's shape) is true to the front of each line
/// along the axis, in their order; the elements after them are absent.
Compacted compact(const Arg& t, const Arg& keep, Axis axis = 0);

}  // namespace tegula
