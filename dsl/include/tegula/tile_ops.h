#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tegula/lambda.h"
#include "tegula/value.h"

/// Operations on whole tiles: creation, shape, reductions and dot.
namespace tegula {

namespace detail {
Tile filled(const Arg& value, DType dtype, std::span<const Extent> shape);
/// Up to six extents, each converted where the user wrote it.
struct Shape {
  std::array<Extent, 6> extents;
  int rank;
  std::span<const Extent> span() const { return {extents.data(), static_cast<std::size_t>(rank)}; }
};
}  // namespace detail

/// Returns a tile whose elements are all 0. For more than three dimensions, reshape or broadcast
/// it.
template <Element T>
Tile zeros(Extent a) {
  return detail::filled(Arg(0).at(a.loc()), dtype_of<T>, std::array{a});
}
template <Element T>
Tile zeros(Extent a, Extent b) {
  return detail::filled(Arg(0).at(a.loc()), dtype_of<T>, std::array{a, b});
}
template <Element T>
Tile zeros(Extent a, Extent b, Extent c) {
  return detail::filled(Arg(0).at(a.loc()), dtype_of<T>, std::array{a, b, c});
}
/// Returns a tile whose elements are all `value`; without extents, a scalar. For more than three
/// dimensions, reshape or broadcast it.
template <Element T>
Tile full(const Arg& value) {
  return detail::filled(value, dtype_of<T>, {});
}
template <Element T>
Tile full(const Arg& value, Extent a) {
  return detail::filled(value, dtype_of<T>, std::array{a});
}
template <Element T>
Tile full(const Arg& value, Extent a, Extent b) {
  return detail::filled(value, dtype_of<T>, std::array{a, b});
}
template <Element T>
Tile full(const Arg& value, Extent a, Extent b, Extent c) {
  return detail::filled(value, dtype_of<T>, std::array{a, b, c});
}
/// Returns start, start + 1, ... of i32, `count` elements.
Tile arange(Extent count, std::int64_t start = 0);

/// Adds a dimension of extent 1; a negative axis counts from the end of the result.
Tile expand(const Arg& t, int axis);
/// Repeats dimensions of extent 1 and adds leading ones.
Tile broadcast(const Arg& t, std::initializer_list<Extent> shape);
/// Returns the same elements, in row-major order, in another shape.
Tile reshape(const Arg& t, std::initializer_list<Extent> shape);
/// Dimension i of the result is dimension order[i] of the tile.
Tile permute(const Arg& t, std::initializer_list<int> order);
/// Exchanges the last two dimensions.
Tile trans(const Arg& t);

/// A dimension of a tile, counted from 0, or from -1 for the last. `sum(t, 1)` and `sum(t,
/// axis(1))` are the same; max and min require `axis(..)`, because `max(t, 1)` could also compare
/// with 1.
class Axis {
 public:
  /// Dimension `n`, which may be negative.
  template <std::integral N>
  constexpr Axis(N n) : value_(static_cast<int>(n)) {}  // NOLINT(google-explicit-constructor)
  /// Returns the number as given.
  constexpr int value() const { return value_; }

 private:
  int value_;
};
/// Returns dimension `n` as an Axis.
constexpr Axis axis(int n) { return Axis(n); }

/// Folds of one dimension, which disappears, or of all. f16 and bf16 are summed in f32 and rounded
/// at the end, integers narrower than 32 bits and i1 in i32. Absent elements are skipped. Sums and
/// products with a NaN are NaN; maxima and minima ignore NaN, and without any number are the
/// identity (-inf for max, inf for min), like those of `cummax`.
Tile sum(const Arg& t);
Tile sum(const Arg& t, Axis axis);
Tile prod(const Arg& t);
Tile prod(const Arg& t, Axis axis);
Tile max(const Arg& t);
Tile max(const Arg& t, Axis axis);
Tile min(const Arg& t);
Tile min(const Arg& t, Axis axis);
namespace detail {
Tile max_with_integer(const Arg& t, const Arg& n);
Tile min_with_integer(const Arg& t, const Arg& n);
}  // namespace detail
/// Larger and smaller of two scalars. Tiles are rejected: write max(t, axis(1)) or max(1, t).
template <std::integral N>
Tile max(const Arg& t, N n, std::source_location at = std::source_location::current()) {
  return detail::max_with_integer(t, Arg(n, at));
}
template <std::integral N>
Tile min(const Arg& t, N n, std::source_location at = std::source_location::current()) {
  return detail::min_with_integer(t, Arg(n, at));
}
/// Returns whether any element of an i1 tile is true.
Tile any(const Arg& t);
Tile any(const Arg& t, Axis axis);
/// Index (i32) of the extreme value; ties resolve to the smallest index, NaN never wins. If no
/// element is a number (all are NaN or absent), it is 0, so that it is always in range.
Tile argmax(const Arg& t, Axis axis);
Tile argmin(const Arg& t, Axis axis);
/// Return the extreme value together with its index.
std::pair<Tile, Tile> max_and_argmax(const Arg& t, Axis axis);
std::pair<Tile, Tile> min_and_argmin(const Arg& t, Axis axis);
/// For means and variances, which divide by the number of present elements, see
/// tegula/statistics.h.

namespace detail {
using CombineFn = std::function<void(std::span<Tile> left, std::span<const Tile> right)>;
std::vector<Tile> reduce_with(std::span<const Tile> tiles, Axis axis, const CombineFn& combine,
                              Loc at);
}  // namespace detail

/// Folds any extent by an associative, commutative function of two scalars, whose result has
/// exactly their type. The fold of no elements is absent. The function may contain operators, math
/// functions, where, casts, if_ (both sides are computed) and captured scalars, but no loop, load,
/// store, fold or `assume`: CompileError.
template <class Fn>
Tile reduce(const Tile& t, Axis axis, Fn combine,
            std::source_location at = std::source_location::current()) {
  static_assert(detail::Gives<Tile, Fn, Tile, const Tile>,
                "tegula: the function of reduce takes two scalar Tiles and returns one");
  return detail::reduce_with(
             std::array{t}, axis,
             [&](std::span<Tile> l, std::span<const Tile> r) {
               l[0] = detail::result_of<Tile>(combine, l[0], r[0]);
             },
             at)
      .front();
}
/// Folds several tiles of one shape together; `combine` takes and returns arrays of scalars.
template <std::size_t N, class Fn>
std::array<Tile, N> reduce(const std::array<Tile, N>& tiles, Axis axis, Fn combine,
                           std::source_location at = std::source_location::current()) {
  using Tiles = std::array<Tile, N>;
  static_assert(detail::Gives<Tiles, Fn, Tiles, Tiles>,
                "tegula: the function of reduce of N tiles takes two std::array<Tile, N> and "
                "returns one");
  const auto fold = [&](std::span<Tile> l, std::span<const Tile> r) {
    std::array<Tile, N> left, right;
    for (std::size_t i = 0; i < N; ++i) {
      left[i] = l[i];
      right[i] = r[i];
    }
    const Tiles folded = detail::result_of<Tiles>(combine, left, right);
    for (std::size_t i = 0; i < N; ++i) l[i] = folded[i];
  };
  const auto results = detail::reduce_with(tiles, axis, fold, at);
  std::array<Tile, N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = results[i];
  return out;
}

/// Replaces absent elements of `x` (outside their tensor) by `value`; none remain. The caller must
/// make sure that these values do no harm. Free for 0 and a tile as it was loaded.
Tile fill_absent(const Arg& x, double value);
/// Gives absent elements arbitrary values, at no cost: `fill_absent(x, any_value)`, for values that
/// are kept for a tile whose elements are absent there, too.
struct AnyValue {};
inline constexpr AnyValue any_value{};
Tile fill_absent(const Arg& x, AnyValue);

/// Returns the tile whose elements i along `axis` are absent unless 0 <= first + i < end: stores
/// drop them, reductions skip them. For a part of a tensor whose end only the kernel knows.
Tile crop(const Arg& x, Axis axis, const Arg& first, const Arg& end);

/// Reduce-scatter over the programs of the cluster: returns this program's slice along `axis` of
/// the sum of their tiles (`cluster_slice` of the index). For 32- and 64-bit types, outside loops
/// and branches; without `cluster(...)` returns the tile itself. Elements absent in the program's
/// own tile are absent; those absent in another's are treated as 0.
Tile cluster_reduce_scatter(const Arg& t, Axis axis);

/// Arithmetic of `dot` on f32 operands. Other types ignore it.
enum class Precision : std::uint8_t {
  ieee,  ///< multiplies them as f32, without tensor cores
  tf32,  ///< rounds them to tf32 for the tensor cores
};
/// The accumulator type of `dot` on operands of T.
template <Element T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, i32,
                                       std::conditional_t<std::is_same_v<T, f64>, f64, f32>>;

/// Returns acc + a @ b, with a [m, k], b [k, n], acc [m, n], or with a leading dimension of equal
/// extent in all three: a product for each index along it. Floats accumulate in f32 (f64 in f64),
/// 8-bit integers in i32. Elements absent along k are treated as 0. Without `acc` it starts from 0.
/// Throws CompileError for types (T0109 to T0111) and shapes (T0206 to T0208, T0215, T0216) that do
/// not match.
Tile dot(const Arg& a, const Arg& b, const Arg& acc = {}, Precision precision = Precision::ieee);

}  // namespace tegula
