#pragma once
// Folds of rows that the CTAs of a cluster hold together.
#include "kernels/online_exponentials.h"
#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"

namespace tegula {

/// The sum of one number of each CTA. A CTA's share of a reduce-scatter has two elements at least:
/// here twice the same.
inline Tile sum_in_cluster(const Tile& mine, int ctas) {
  return sum(cluster_reduce_scatter(broadcast(mine, {2 * ctas}), 0)) * 0.5f;
}

/// Merges the maxima and sums of the parts of a row. Each CTA hands every CTA a row of its own
/// numbers in its column of zeros, so that the reduce-scatter gives all of them to all.
inline RowExponentials merge_in_cluster(const RowExponentials& mine, int ctas) {
  const Tile is_mine = arange(ctas) == cluster_rank();
  const Tile is_top = (arange(2 * ctas) % 2 == 0).expand(1);
  const Tile sent = where(is_mine, where(is_top, mine.top, mine.total), 0.0f);
  const Tile parts = cluster_reduce_scatter(sent, 0), takes_top = (arange(2) == 0).expand(1);
  const Tile tops = sum(where(takes_top, parts, 0.0f), 0), top = max(tops);
  const Tile totals = sum(where(takes_top, 0.0f, parts), 0);
  return {top, sum(totals * exp_above(tops, finite_reference(top)))};
}

}  // namespace tegula
