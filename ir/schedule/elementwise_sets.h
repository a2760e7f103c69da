#pragma once
// Partition of a region's pure tile ops into the elementwise nodes of the dependence graph.
#include <functional>
#include <unordered_map>

#include "ir/kernel.h"

namespace tegula::ir {

/// For each op of the region that some anchor or carried tile reaches and that is pure tile
/// arithmetic, the first op (in text order) of its set. `is_anchor` tells ops that are nodes of
/// their own.
std::unordered_map<OpId, OpId> elementwise_sets(const Kernel& k, RegionId region,
                                                const std::function<bool(OpId)>& is_anchor);

}  // namespace tegula::ir
