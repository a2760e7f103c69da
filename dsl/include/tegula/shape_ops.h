#pragma once
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <utility>

#include "tegula/tile_ops.h"
#include "tegula/value.h"

/// Operations on the shape of tiles: new dimensions, parts of tiles, concatenation, and elements
/// selected by an index. Absent elements (those outside their tensor) stay absent wherever they
/// move to.
namespace tegula {

/// Selects `extent` elements of a dimension from `first`, in `t(part(8, 4), all)`.
struct Part {
  int first;   ///< number of the first element, from 0
  int extent;  ///< number of elements
};
/// Returns the part of `extent` elements from `first`.
constexpr Part part(int first, int extent) { return {first, extent}; }

/// A subscript of `t(..)`, for one dimension: all of it, a part, or one element, given by a number
/// that is known while tracing or by an integer scalar; the dimension then disappears. `none`
/// selects nothing and adds a dimension of extent 1.
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
  template <Element T>
  Pick(const Scalar<T>& element, std::source_location at = std::source_location::current())
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

/// Returns `extent` elements of a tile along `axis` from `first`, both known while tracing. Throws
/// CompileError (T0220) if the range is out of bounds.
Tile slice(const Arg& t, Axis axis, int first, int extent);
/// Returns element `i` of each line along `axis`, which disappears. `i` is an integer scalar; out
/// of bounds the result is 0, which `cpu` and `sim` report.
Tile extract(const Arg& t, Axis axis, const Arg& i);
/// Returns the tile with element `i` of each line along `axis` replaced by `value`, which is a
/// scalar or has the tile's other dimensions, and is converted to the tile's type. If `i` is out of
/// bounds, nothing is replaced.
Tile insert(const Arg& t, Axis axis, const Arg& i, const Arg& value);

/// Concatenates the tiles along `axis`. Extents along the other dimensions are equal; element types
/// are promoted as in arithmetic.
Tile cat(std::initializer_list<Tile> parts, Axis axis,
         std::source_location at = std::source_location::current());
/// Returns `a`, then `b`, which broadcast, along a new last dimension of extent 2.
Tile join(const Arg& a, const Arg& b);
/// Returns the two halves of a last dimension of extent 2, which disappears.
std::pair<Tile, Tile> split(const Arg& t);
/// Returns a[0], b[0], a[1], b[1], .. along `axis`: twice the extent.
Tile interleave(const Arg& a, const Arg& b, Axis axis = -1);
/// Adds `before` elements of `value` at the start of each line along `axis`, and `after` at its
/// end. Absent elements of the tile stay absent; those of `value` are present.
Tile pad(const Arg& t, Axis axis, int before, int after, const Arg& value);

/// Reverses the elements along `axis`.
Tile flip(const Arg& t, Axis axis);
/// Removes dimension `axis`, whose extent is 1; a tile of one dimension becomes a scalar.
Tile squeeze(const Arg& t, Axis axis);
/// Returns all elements along one dimension, in row-major order.
Tile ravel(const Arg& t);

/// out[.., i, ..] = t[.., index[.., i, ..], ..] along `axis`; other extents are equal, or 1 in one
/// of the two. The index has integer elements. An element is present if its index and the selected
/// element are; an index out of bounds gives 0, which `cpu` and `sim` report.
Tile gather(const Arg& t, const Arg& index, Axis axis);

/// How a scatter combines a value with the existing element.
enum class Combine : std::uint8_t {
  store,   ///< the value replaces the element
  add,     ///< their sum
  max,     ///< the larger one
  min,     ///< the smaller one
  bit_or,  ///< bitwise or
};
/// Returns `t` with out[.., index[.., i, ..], ..] = values[.., i, ..] along `axis`, or combined
/// with it. Other extents are equal, or 1 in index and values. Values whose index is out of bounds,
/// and absent values, are dropped. For `store` with equal indices it is unspecified which value
/// remains, and `cpu` and `sim` report it; the other kinds support integers only, whose order does
/// not matter: CompileError (T0120).
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
