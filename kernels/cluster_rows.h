#pragma once
// Rows that the CTAs of a cluster hold together.
#include <array>

#include "kernels/online_exponentials.h"
#include "tegula/cluster_folds.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"

namespace tegula {

/// Merges the maxima and sums of the parts of a row.
inline RowExponentials merge_in_cluster(const RowExponentials& mine) {
  const auto [tops, totals] = cluster_gather(std::array{mine.top, mine.total});
  const Tile top = max(tops);
  return {top, sum(totals * exp_above(tops, finite_reference(top)))};
}

}  // namespace tegula
