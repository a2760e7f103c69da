#pragma once
// Partition of a region's pure tile ops into the elementwise nodes of the dependence graph.
#include <functional>
#include <unordered_map>

#include "ir/kernel.h"

namespace tegula::ir {

/// Maps each pure tile op of the region that depends on an anchor or a carried tile to the first op
/// (in text order) of its set. `is_anchor` returns true for ops that are nodes themselves.
std::unordered_map<OpId, OpId> elementwise_sets(const Kernel& k, RegionId region,
                                                const std::function<bool(OpId)>& is_anchor);

}  // namespace tegula::ir
