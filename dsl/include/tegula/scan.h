#pragma once
#include <array>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tegula/lambda.h"
#include "tegula/tile_ops.h"

/// Scans: running folds along a dimension of any extent.
namespace tegula {

/// Options of a scan.
struct ScanOptions {
  bool reverse = false;    ///< from the last element to the first
  bool exclusive = false;  ///< an element's result excludes the element
  Tile starts = {};        ///< an i1 tile of the same shape: a segment begins at this element
};

/// Running sum, product, maximum and minimum. f16 and bf16 are computed in f32 and rounded at the
/// end, integers narrower than 32 bits in i32. The result is absent where the operand is; absent
/// elements are skipped. Maxima and minima ignore NaN, and without any number are the identity.
Tile cumsum(const Arg& t, Axis axis, ScanOptions options = {});
Tile cumprod(const Arg& t, Axis axis, ScanOptions options = {});
Tile cummax(const Arg& t, Axis axis, ScanOptions options = {});
Tile cummin(const Arg& t, Axis axis, ScanOptions options = {});

namespace detail {
std::vector<Tile> scan_with(std::span<const Tile> tiles, std::span<const Arg> identity, Axis axis,
                            const CombineFn& combine, const ScanOptions& options, Loc at);

/// Adapts a function of arrays of scalars to the recorder of folds.
template <std::size_t N, class Fn>
auto combine_arrays(const Fn& combine) {
  using Tiles = std::array<Tile, N>;
  static_assert(Gives<Tiles, const Fn, Tiles, Tiles>,
                "tegula: the function of scan of N tiles takes two std::array<Tile, N> and returns "
                "one");
  return [&combine](std::span<Tile> l, std::span<const Tile> r) {
    std::array<Tile, N> left, right;
    for (std::size_t i = 0; i < N; ++i) {
      left[i] = l[i];
      right[i] = r[i];
    }
    const Tiles folded = result_of<Tiles>(combine, left, right);
    for (std::size_t i = 0; i < N; ++i) l[i] = folded[i];
  };
}
/// Does the same for a function of two scalars.
template <class Fn>
auto combine_scalars(Fn& combine) {
  static_assert(Gives<Tile, Fn, Tile, const Tile>,
                "tegula: the function of scan takes two scalar Tiles and returns one");
  return [&combine](std::span<Tile> l, std::span<const Tile> r) {
    l[0] = result_of<Tile>(combine, l[0], r[0]);
  };
}
template <std::size_t N>
std::array<Tile, N> array_of(const std::vector<Tile>& tiles) {
  std::array<Tile, N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = tiles[i];
  return out;
}
}  // namespace detail

/// Returns the running fold by an associative function of two scalars, whose result has exactly
/// their type. Its first argument precedes the second along the axis, in a reverse scan too, so it
/// need not commute; the elements are grouped in any way. See `reduce` for what it may contain.
/// `exclusive` requires `scan_from`: CompileError.
template <class Fn>
Tile scan(const Tile& t, Axis axis, Fn combine, ScanOptions options = {},
          std::source_location at = std::source_location::current()) {
  return detail::scan_with(std::array{t}, {}, axis, detail::combine_scalars(combine), options, at)
      .front();
}
/// Scans several tiles of one shape together; `combine` takes and returns arrays of scalars. An
/// element that one of them lacks is absent in all.
template <std::size_t N, class Fn>
std::array<Tile, N> scan(const std::array<Tile, N>& tiles, Axis axis, Fn combine,
                         ScanOptions options = {},
                         std::source_location at = std::source_location::current()) {
  return detail::array_of<N>(
      detail::scan_with(tiles, {}, axis, detail::combine_arrays<N>(combine), options, at));
}
/// Does the same with the identity of the function, with which an exclusive scan, or each of its
/// segments, begins. The identity is given as numbers, or scalars of the tiles' types.
template <std::size_t N, class Fn>
std::array<Tile, N> scan_from(const std::array<Arg, N>& identity, const std::array<Tile, N>& tiles,
                              Axis axis, Fn combine, ScanOptions options = {},
                              std::source_location at = std::source_location::current()) {
  return detail::array_of<N>(
      detail::scan_with(tiles, identity, axis, detail::combine_arrays<N>(combine), options, at));
}
template <class Fn>
Tile scan_from(const Arg& identity, const Tile& t, Axis axis, Fn combine, ScanOptions options = {},
               std::source_location at = std::source_location::current()) {
  return detail::scan_with(std::array{t}, std::array{identity}, axis,
                           detail::combine_scalars(combine), options, at)
      .front();
}

}  // namespace tegula
