#pragma once
// The ops of a loop of a graph of dots as a LoopSchedule orders them.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/passes/dot_graph/dot_graph.h"
#include "ir/schedule/graph.h"

namespace tegula::ir {

/// Ops that the expansion treats by what the dots need of them, whatever the order.
struct DotOps {
  /// The ops that make the fragments of a dot in its registers, by dot, in text order: a wgmma that
  /// is in flight must not see registers written that a later one reads (ptxas, C7513).
  std::unordered_map<OpId, std::vector<OpId>> fragments;
  /// Loads that are copied ahead, and permutes and conversions that only dots need which read
  /// shared memory: nothing computes them.
  std::unordered_set<OpId> dropped;
};
DotOps dot_ops(const Kernel& k, const DotGraph& dots);

/// An op of a step: in step t it runs for iteration t - stage.
struct ScheduledOp {
  OpId op;
  int stage = 0;
};

/// Ops of a step that the warpgroups of a role run one after another (a Schedule's token).
struct Turn {
  OpId first, last;  ///< none: all at once
};

struct LoopOrder {
  /// A step of the steady state: dots and all that is computed, without loads by TMA and without
  /// the terminator. Scalars and effects that are no nodes of the graph stand in front of the op
  /// that needs them, effects in text order; a stage has its own instance of each scalar.
  std::vector<ScheduledOp> ops;
  std::unordered_map<OpId, int> stages;  ///< of nodes' ops
  std::unordered_set<OpId> in_flight;    ///< dots that may stay incomplete over an iteration's end
  std::unordered_set<OpId> fragments;    ///< ops that write fragments
  std::unordered_set<OpId> pinned;       ///< dots with a pin in front of the wait for them
  int last_stage = 0;
  Turn turn;                ///< in steps of all stages
  bool is_possible = true;  ///< no op of the Schedule stands in front of what it reads

  int stage(OpId op) const {
    const auto it = stages.find(op);
    return it == stages.end() ? 0 : it->second;
  }
};

/// The order of a Schedule's loop; nodes of the loop that it does not list stand where the first
/// op that needs them does.
LoopOrder loop_order(const Kernel& k, const Graph& graph, const DotGraph& dots,
                     const DotOps& special, const LoopSchedule& schedule);

/// GEMM1 of two GEMMs back to back, if it can run one iteration late: it is computed from GEMM0,
/// which does not need its sum. None of other graphs.
OpId late_gemm(const Kernel& k, const DotGraph& dots);
/// The steps that a loop is expanded from: those of the Schedule that the context's changes of the
/// plan begin with, unless the expansion cannot follow them, else the policy's. `graph` has the
/// labels of the kernel as it was in front of all pipelining.
LoopSchedule steps_of(const Kernel& k, const Graph& graph, const DotGraph& dots,
                      const DotOps& special, PassContext& context);
/// The range that a token of the author's Schedule has in this loop; where that has no token, the
/// range of all dots, if there are several.
Turn turn_of(const Graph& graph, const DotGraph& dots, const LoopOrder& order,
             const Schedule* wanted);

}  // namespace tegula::ir
