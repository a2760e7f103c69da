#pragma once
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <utility>

#include "tegula/tile_ops.h"
#include "tegula/value.h"

/// Operations on the shape of tiles: new dimensions, parts of tiles, tiles put together, and
/// elements that an index chooses. Elements that are absent (outside their tensor) stay so wherever
/// they move to.
namespace tegula {

/// `extent` elements of a dimension from `first`, in `t(part(8, 4), all)`.
struct Part {
  int first;
  int extent;
};
constexpr Part part(int first, int extent) { return {first, extent}; }

/// A subscript of `t(..)`, for one dimension: all of it, a part, or one element, by a number that
/// is known while tracing or by an integer scalar; the dimension then disappears. `none` takes
/// nothing and makes a new dimension of extent 1.
class Pick {
 public:
  enum class Kind : std::uint8_t { All, New, Element, Part };
  Pick(const All&, std::source_location at = std::source_location::current())
      : loc_(at), kind_(Kind::All) {}
  Pick(NewDim, std::source_location at = std::source_location::current())
      : loc_(at), kind_(Kind::New) {}
  Pick(Part p, std::source_location at = std::source_location::current())
      : loc_(at), part_(p), kind_(Kind::Part) {}
  Pick(const Tile& element, std::source_location at = std::source_location::current())
      : loc_(at), element_(element, at), kind_(Kind::Element) {}
  template <std::integral T>
  Pick(T element, std::source_location at = std::source_location::current())
      : loc_(at), element_(element, at), kind_(Kind::Element) {}

  Kind kind() const { return kind_; }
  const Part& part() const { return part_; }
  const Arg& element() const { return element_; }
  const Loc& loc() const { return loc_; }

 private:
  Loc loc_;
  Part part_{};
  Arg element_;
  Kind kind_;
};

namespace detail {
Tile picked(const Tile& tile, std::span<const Pick> picks);
}  // namespace detail

/// `extent` elements of a tile along `axis` from `first`, both known while tracing. A range that
/// leaves the tile is a CompileError.
Tile slice(const Arg& t, Axis axis, int first, int extent);
/// Element `i` of each line along `axis`, which disappears. `i` is an integer scalar; outside of
/// the tile the result is 0, which `cpu` and `sim` report.
Tile extract(const Arg& t, Axis axis, const Arg& i);
/// The tile with element `i` of each line along `axis` replaced by `value`, which is a scalar or
/// has the tile's other dimensions, and is converted to the tile's type. Outside of the tile
/// nothing is replaced.
Tile insert(const Arg& t, Axis axis, const Arg& i, const Arg& value);

/// The tiles one behind the other along `axis`: equal extents along the others, element types as in
/// arithmetic.
Tile cat(std::initializer_list<Tile> parts, Axis axis,
         std::source_location at = std::source_location::current());
/// A new last dimension of extent 2: `a`, then `b`, which broadcast.
Tile join(const Arg& a, const Arg& b);
/// The two halves of a last dimension of extent 2, which disappears.
std::pair<Tile, Tile> split(const Arg& t);
/// a[0], b[0], a[1], b[1], .. along `axis`: twice the extent.
Tile interleave(const Arg& a, const Arg& b, Axis axis = -1);
/// `before` elements of `value` in front of each line along `axis`, and `after` behind it. Absent
/// elements of the tile stay absent; those of `value` are present.
Tile pad(const Arg& t, Axis axis, int before, int after, const Arg& value);

/// The elements along `axis` from last to first.
Tile flip(const Arg& t, Axis axis);
/// Without dimension `axis`, whose extent is 1; a tile of one dimension becomes a scalar.
Tile squeeze(const Arg& t, Axis axis);
/// All elements along one dimension, in row-major order.
Tile ravel(const Arg& t);

/// out[.., i, ..] = t[.., index[.., i, ..], ..] along `axis`; extents along the other dimensions
/// are equal, or 1 in one of the two. The index is of integers. Present where the index is and the
/// tile has the element; an index outside of the tile gives 0, which `cpu` and `sim` report.
Tile gather(const Arg& t, const Arg& index, Axis axis);

/// How a scatter treats the element that is there.
enum class Combine : std::uint8_t { store, add, max, min, bit_or };
/// `t` with out[.., index[.., i, ..], ..] = values[.., i, ..] along `axis`, or combined with it.
/// Other extents are equal, or 1 in index and values. Values whose index is outside of the tile,
/// and absent ones, are dropped. `store` by equal indices leaves open which value stays, and `cpu`
/// and `sim` report it; the other kinds are for integers, whose order does not matter:
/// CompileError.
Tile scatter(const Arg& t, const Arg& index, const Arg& values, Axis axis,
             Combine combine = Combine::store);

/// Folds that leave their dimension with extent 1: `x / sum(x, 1, keepdims)`.
Tile sum(const Arg& t, Axis axis, KeepDims);
Tile prod(const Arg& t, Axis axis, KeepDims);
Tile max(const Arg& t, Axis axis, KeepDims);
Tile min(const Arg& t, Axis axis, KeepDims);
Tile any(const Arg& t, Axis axis, KeepDims);
Tile argmax(const Arg& t, Axis axis, KeepDims);
Tile argmin(const Arg& t, Axis axis, KeepDims);

}  // namespace tegula
