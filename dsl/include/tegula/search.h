#pragma once
#include <functional>

#include "tegula/order.h"
#include "tegula/view.h"

/// Searches in sorted elements, weighted counts, and the elements that a condition keeps.
namespace tegula {

enum class Side : std::uint8_t { left, right };

namespace detail {
Tile searched(const Tile& length, const Arg& values, Side side,
              const std::function<Tile(const Tile& index)>& element);
}

/// For each value (a scalar or a tile of any shape) how many elements of `sorted` are smaller
/// (left), or smaller or equal (right): i32, where the value would be inserted. `sorted` is a tile
/// of one dimension in ascending order, whose absent elements stand at the end and do not count. A
/// NaN is greater than all numbers. Throws CompileError for other ranks, and where types differ.
Tile searchsorted(const Arg& sorted, const Arg& values, Side side = Side::left);
/// The same in a tensor of any length, whose elements are read one by one: as many reads as its
/// length has bits.
template <Element T>
Tile searchsorted(const In<T, 1>& sorted, const Arg& values, Side side = Side::left) {
  return detail::searched(cast<i32>(sorted.dim(0)), values, side,
                          [&](const Tile& index) { return sorted(index); });
}

/// Sum of the weights of each key (of the weights' type, [bins]): a histogram of weights. Keys are
/// integers, weights have their shape or broadcast to it; keys outside of [0, bins), absent keys
/// and absent weights do not count. Sums of floats are formed in the order of the elements, so that
/// they have the same bits in every run; of at most 32768 elements. At most 4096 bins. Throws
/// CompileError.
Tile bincount(const Arg& keys, const Arg& weights, int bins);

/// Elements that were kept, and how many along the axis (i32; a scalar for a tile of one
/// dimension).
struct Compacted {
  Tile values, count;
};
/// The elements for which `keep` (i1, of the tile's shape) is true, in their order, at the front of
/// each line along the axis; what is behind them is absent.
Compacted compact(const Arg& t, const Arg& keep, Axis axis = 0);

}  // namespace tegula
