#pragma once
// The order of the ops in a loop with a dot graph, as a LoopSchedule defines it.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/passes/dot_graph/dot_graph.h"
#include "ir/schedule/graph.h"

namespace tegula::ir {

/// Ops whose placement is dictated by a dot operand, whatever the order.
struct PlacementConstraints {
  /// The ops that make the register fragments of each dot, in text order. While a wgmma is in
  /// flight, registers that a later one reads must not be written (ptxas, C7513).
  std::unordered_map<OpId, std::vector<OpId>> fragments;
  /// Loads that are copied ahead, and permutes and conversions that are needed only by dots that
  /// read shared memory. No step computes them.
  std::unordered_set<OpId> dropped;
};
PlacementConstraints placement_constraints(const Kernel& k, const DotGraph& dots);

/// An op of a step: in step t it runs for iteration t - stage.
struct ScheduledOp {
  OpId op;
  int stage = 0;
};

/// Ops of a step that the warpgroups of a role run one after another (a Schedule's token).
struct OrderedSection {
  OpId first, last;  ///< null: all warpgroups at once
};

struct LoopOrder {
  /// A step of the steady state: dots and all computations, without TMA loads and the terminator.
  /// Scalars and effects that are not nodes of the graph precede the op that needs them, effects in
  /// text order. Each stage has its own instance of each scalar.
  std::vector<ScheduledOp> ops;
  std::unordered_map<OpId, int> stages;  ///< of nodes' ops
  std::unordered_set<OpId> in_flight;    ///< dots that may stay incomplete past an iteration's end
  std::unordered_set<OpId> fragments;    ///< ops that write fragments
  std::unordered_set<OpId> pinned;       ///< dots with a pin before the wait for them
  int last_stage = 0;
  OrderedSection section;   ///< in steps of all stages
  bool is_possible = true;  ///< no op of the Schedule precedes what it reads

  int stage(OpId op) const {
    const auto it = stages.find(op);
    return it == stages.end() ? 0 : it->second;
  }
};

/// Returns the order of a Schedule's loop. Nodes of the loop that it does not list are placed
/// before the first op that needs them.
LoopOrder loop_order(const Kernel& k, const Graph& graph, const DotGraph& dots,
                     const PlacementConstraints& special, const LoopSchedule& schedule);

/// Returns GEMM1 of two back-to-back GEMMs if it can run one iteration late: it is computed from
/// GEMM0, which does not need its sum. Returns a null op for other graphs.
OpId late_gemm(const Kernel& k, const DotGraph& dots);
/// Returns the steps from which a loop is expanded: those of the Schedule in `context.planned`,
/// unless the expansion cannot follow them, else those of the policy. `graph` has the labels of the
/// kernel before any pipelining.
LoopSchedule steps_of(const Kernel& k, const Graph& graph, const DotGraph& dots,
                      const PlacementConstraints& special, PassContext& context);
/// Returns the range of a token of the author's Schedule in this loop. If the Schedule has no
/// token, returns the range of all dots if there are several.
OrderedSection ordered_section_of(const Graph& graph, const DotGraph& dots, const LoopOrder& order,
                                  const Schedule* wanted);

}  // namespace tegula::ir
