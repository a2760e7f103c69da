#pragma once
// The order of a loop's ops around its dots: each dot as early as what it reads allows.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/passes/dot_graph/dot_graph.h"

namespace tegula::ir {

struct DotOrder {
  /// Dots and all that is computed; without loads by TMA, and without what follows.
  std::vector<OpId> ops;
  /// Permutes and conversions that only dots need which read shared memory: nothing computes them.
  std::vector<OpId> dropped;
  /// The ops that make the fragments of a dot in its registers: directly in front of it, as a wgmma
  /// that is in flight must not see registers written that a later one reads (ptxas, C7513).
  std::unordered_map<OpId, std::vector<OpId>> fragments;
};

/// A topological order: dots first, those whose result the iteration reads before others; all else
/// as in the text.
DotOrder order_of(const Kernel& k, const DotGraph& graph);

/// Values that the op uses, itself or in nested ops.
std::vector<Value> used_by(const Kernel& k, OpId op);

}  // namespace tegula::ir
