#pragma once
// Model of the cycles for which a warpgroup's part of a node occupies each unit of an SM.
#include "ir/schedule/timeline.h"

namespace tegula::ir {

struct NodeCost {
  double tensor = 0, lanes = 0, exponentials = 0;
  double all() const { return tensor + lanes + exponentials; }
};

/// Returns the cost of one warpgroup's part of the node if `parts` warpgroups share its work.
/// `engine` applies to dots only.
NodeCost cost_of(const Kernel& k, const Node& node, Engine engine, int parts, const SmModel& m);

/// Returns the bytes of the tile that a load or store moves; 0 if it has no tile.
double bytes_of(const Kernel& k, const Node& node);

}  // namespace tegula::ir
