#pragma once
// Split-KV, for few rows with many keys: programs share a tile, each visits a part of its keys, and
// their softmaxes are combined (Dao et al. 2023, "Flash-Decoding"): those of a cluster through its
// shared memory, those of several clusters through memory, by the last one to arrive.
#include "kernels/attention/kv_block_iterator.h"
#include "kernels/attention/online_softmax.h"
#include "tegula/tegula.h"

namespace tegula {

/// The softmax over the keys of all programs of the cluster, for the rows of this program's slice
/// (`cluster_slice`). Partials are added in an order of their own (`cluster_reduce_scatter`), the
/// same in every run.
OnlineSoftmax combine_in_cluster(const OnlineSoftmax& part, const Tile& factor, int programs);

/// Workspace of the clusters that share a tile: partial accumulators [tiles, clusters, rows,
/// columns], and row_max and row_sum [tiles, clusters, 2, rows].
struct SplitKvPartials {
  /// Rows that `combine_all` merges at a time.
  static constexpr int kRows = 8;

  const InOut<f32, 4>&acc_partials, &row_stats;
  Tile arrivals;  ///< [tiles * programs of a cluster], 0: pointer to the first
  Tile clusters;

  /// Publishes some rows of a tile for one cluster. True in the last cluster, which may read the
  /// partials of all.
  Tile publish(const OnlineSoftmax& s, const Tile& tile, const Tile& cluster, const Index& rows,
               const Index& columns, const Tile& arrival) const;
  /// Combines the partials of all clusters, in their order: the same in every run, whoever is last.
  OnlineSoftmax combine_all(const Tile& tile, const Index& rows, const Index& columns,
                            const Tile& factor) const;
};

}  // namespace tegula
