#pragma once
#include <array>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tegula/tile_ops.h"
#include "tegula/value.h"

/// Folds over the programs of a cluster, for rows that are too long for one program: each folds its
/// slice of the row, then the programs fold their results. All of them get the result, with equal
/// bits.
///
///   for (auto r : grid(rows(y), 1, cluster(8))) {
///     const Tile v = x(r, slice(cluster_rank() * 8192, 8192)), top = cluster_max(max(v));
///
/// Call them in the body of the grid loop, outside loops and branches; without `cluster(...)` they
/// are folds over one program. They throw CompileError for pointers.
namespace tegula {

/// Returns the tiles (or scalars) of all programs of the cluster as one tile with a new dimension
/// 0, whose indices are the programs' ranks. Elements that are absent in their program are 0, and
/// present.
Tile cluster_gather(const Arg& t);

/// Fold over the programs of the cluster, element by element or of scalars. Rounding is that of
/// `sum`, `max` and `min`. Absent elements are skipped; the fold of none is the identity (0, -inf,
/// inf, or the type's lowest and highest number), which is present.
Tile cluster_sum(const Arg& t);
Tile cluster_max(const Arg& t);
Tile cluster_min(const Arg& t);

namespace detail {
std::vector<Tile> cluster_gather(std::span<const Tile> tiles, Loc at);
}  // namespace detail

/// Does the same for several tiles (or scalars) in one exchange.
template <std::size_t N>
std::array<Tile, N> cluster_gather(const std::array<Tile, N>& tiles,
                                   std::source_location at = std::source_location::current()) {
  const std::vector<Tile> gathered = detail::cluster_gather(tiles, at);
  std::array<Tile, N> all;
  for (std::size_t i = 0; i < N; ++i) all[i] = gathered[i];
  return all;
}

/// Folds several tiles (or scalars) of one shape over the programs together, such as the maximum
/// and the sum of softmax: `combine` takes and returns arrays, like that of `reduce`. Absent
/// elements are treated as 0: `fill_absent` gives them another value.
template <std::size_t N, class Fn>
std::array<Tile, N> cluster_reduce(const std::array<Tile, N>& tiles, Fn combine,
                                   std::source_location at = std::source_location::current()) {
  return reduce(cluster_gather(tiles, at), axis(0), combine, at);
}

}  // namespace tegula
