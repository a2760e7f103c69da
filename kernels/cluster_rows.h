#pragma once
// Rows that are distributed over the CTAs of a cluster.
#include <array>

#include "kernels/online_exponentials.h"
#include "tegula/cluster_folds.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"

namespace tegula::kernels {

/// Returns the maximum and sum of a row from those of its parts in the CTAs of the cluster.
inline RowExponentials merge_in_cluster(const RowExponentials& mine) {
  const auto [tops, totals] = cluster_gather(std::array{mine.top, mine.total});
  const Tile top = max(tops);
  return {top, sum(totals * exp_above(tops, finite_reference(top)))};
}

}  // namespace tegula::kernels
