#pragma once
// Split-KV, for few rows with many keys: programs share a tile, each visits a part of its keys, and
// their softmaxes are combined (Dao et al. 2023, "Flash-Decoding"): within a cluster through
// distributed shared memory, between clusters through global memory by the last cluster to arrive.
#include "kernels/attention/kv_block_iterator.h"
#include "kernels/attention/online_softmax.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Returns the softmax over the keys of all CTAs of the cluster, for the rows of this CTA's slice
/// (`cluster_slice`). Partials are added in a fixed order (that of `cluster_reduce_scatter`), so
/// results are bitwise reproducible.
OnlineSoftmax combine_in_cluster(const OnlineSoftmax& part, const Tile& factor, int programs);

/// Workspace of the clusters, or of the programs without a cluster, that share a tile: partial
/// accumulators [tiles, clusters, rows, columns], and row_max and row_sum [tiles, clusters, 2,
/// rows].
struct SplitKvPartials {
  /// Rows that `combine_all` processes at a time: of clusters, and of work lists, whose tiles have
  /// fewer rows and more partials.
  static constexpr int kRows = 8, kRowsOfList = 4;

  const InOut<f32, 4>&acc_partials, &row_stats;
  Tile arrivals;  ///< pointer to counters that are 0: one per tile and CTA of a cluster
  Tile clusters;  ///< that share a tile; unused with work lists

  /// Publishes some rows of a tile for one of `clusters` clusters. Returns true in the last one,
  /// which may read the partials of all of them.
  Tile publish(const OnlineSoftmax& s, const Tile& tile, const Tile& cluster, const Index& rows,
               const Index& columns, const Tile& arrival, const Tile& clusters) const;
  /// Combines the partials of clusters [first, end) in a fixed order: bitwise reproducible.
  OnlineSoftmax combine_all(const Tile& tile, const Tile& first, const Tile& end, const Index& rows,
                            const Index& columns, const Tile& factor) const;
};

}  // namespace tegula::kernels
