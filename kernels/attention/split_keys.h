#pragma once
// Few rows with many keys: programs share a tile, each visits a part of its keys, and their
// softmaxes are merged (Dao et al. 2023, "Flash-Decoding"): those of a cluster through its shared
// memory, those of several clusters by the one that has done last, through memory.
#include "kernels/attention/online_softmax.h"
#include "kernels/attention/visits.h"
#include "tegula/tegula.h"

namespace tegula {

/// How many share a tile: clusters of so many programs.
struct KeySplits {
  int programs = 1;
  std::int64_t clusters = 1;

  std::int64_t all() const { return programs * clusters; }
};

/// The softmax over what all programs of the cluster have visited, of the rows that are this
/// program's share (`cluster_share`). The programs' parts are added in an order of their own
/// (`cluster_sum`), the same in every run.
OnlineSoftmax merged(const OnlineSoftmax& part, const Tile& factor, int programs);

/// Where the clusters that share a tile leave their softmaxes: outputs [tiles, clusters, rows,
/// columns], and tops and sums [tiles, clusters, 2, rows].
struct SharedSoftmaxes {
  /// That `all` is asked for at a time.
  static constexpr int kRows = 8;

  const InOut<f32, 4>&outs, &facts;
  Tile arrivals;  ///< [tiles * programs of a cluster], 0: pointer to the first
  Tile clusters;

  /// Some rows of a tile, by one cluster. True in the last one, which may see what all have left.
  Tile leave(const OnlineSoftmax& s, const Tile& tile, const Tile& cluster, const Index& rows,
             const Index& columns, const Tile& arrival) const;
  /// Of all clusters, in their order: the same in every run, whoever is last.
  OnlineSoftmax all(const Tile& tile, const Index& rows, const Index& columns,
                    const Tile& factor) const;
};

}  // namespace tegula
