#pragma once
// Cycles that a warpgroup's part of a node keeps each unit of an SM busy, by the model.
#include "ir/schedule/timeline.h"

namespace tegula::ir {

struct NodeCost {
  double tensor = 0, lanes = 0, exponentials = 0;
  double all() const { return tensor + lanes + exponentials; }
};

/// The node's work is divided among `parts` warpgroups. `engine` is a dot's.
NodeCost cost_of(const Kernel& k, const Node& node, Engine engine, int parts, const SmModel& m);

/// Bytes of the tile that a load brings, or that a store takes.
double bytes_of(const Kernel& k, const Node& node);

}  // namespace tegula::ir
