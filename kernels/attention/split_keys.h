#pragma once
// Few rows with many keys: the programs of a cluster share a tile, each visits a part of its keys,
// and their softmaxes are merged (Dao et al. 2023, "Flash-Decoding", whose parts meet in memory).
#include "kernels/attention/online_softmax.h"
#include "kernels/attention/visits.h"

namespace tegula {

/// The blocks of `visits` that are this program's, of a cluster's: as many as those of the others,
/// but for the last ones, which may have fewer or none.
Visits own_part(const Visits& visits, int programs);

/// The softmax over what all programs of the cluster have visited, of the rows that are this
/// program's share (`cluster_share`). The programs' parts are added in an order of their own
/// (`cluster_sum`), the same in every run.
OnlineSoftmax merged(const OnlineSoftmax& part, const Tile& factor, int programs);

}  // namespace tegula
