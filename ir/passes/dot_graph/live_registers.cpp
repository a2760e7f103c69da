#include "ir/passes/dot_graph/live_registers.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/loop.h"

namespace tegula::ir {
namespace {

class LiveRanges {
 public:
  LiveRanges(const Kernel& k, const DotGraph& graph, const LoopOrder& order)
      : k_(k), graph_(graph), order_(order), body_(k[graph.loop].regions[0]) {
    for (const ScheduledOp& scheduled : order.ops) {
      position_.try_emplace(scheduled.op, end_);
      end_ = position_.at(scheduled.op) + 1;
    }
  }

  std::int64_t most() {
    std::int64_t throughout = 0;
    for (const GraphDot& dot : graph_.dots) {
      const Value sum = k_[dot.op].results[0];
      const std::size_t last = last_use_in_place(sum);
      if (k_[k_[dot.op].operands[2]].region == body_ || last == end_)
        throughout += registers(sum);
      else if (!graph_.find(k_[k_[dot.op].operands[2]].def))
        add(position_.at(dot.op), last, registers(sum));
      if (dot.a().form != OperandForm::Register) continue;
      const Value fragments = k_[dot.op].operands[0];
      const auto made = position_.find(k_[dot.a().tile].def);
      if (made == position_.end())
        throughout += registers(fragments);
      else
        add(made->second, retired(dot), registers(fragments));
    }
    std::int64_t live = 0, most = 0;
    for (const std::int64_t change : changes_) most = std::max(most, live += change);
    return throughout + most;
  }

 private:
  std::int64_t registers(Value tile) const {
    const Type t = k_.type(tile);
    return t.count() * size_bits(t.dtype()) / 32 / (32 * graph_.num_warps);
  }

  /// Returns the position of the last op that reads the sum or what is computed from it in place,
  /// or that of the end if the next iteration reads it.
  std::size_t last_use_in_place(Value sum) const {
    std::unordered_set<Value> reached{sum};
    std::size_t last = 0;
    for (const ScheduledOp& scheduled : order_.ops) {
      const auto is_reached = [&](Value v) { return reached.contains(v); };
      if (std::ranges::none_of(used_by(k_, scheduled.op), is_reached)) continue;
      last = position_.at(scheduled.op);
      for (Value v : k_[scheduled.op].results)
        if (k_.type(v).is_tile() && registers(v) == registers(sum)) reached.insert(v);
    }
    const auto nexts = loop_nexts(k_, graph_.loop);
    const bool goes_on = std::ranges::any_of(nexts, [&](Value v) { return reached.contains(v); });
    return goes_on ? end_ : last;
  }

  /// Returns the position of the first op that waits for the dot or a later one, or the end.
  std::size_t retired(const GraphDot& dot) const {
    std::unordered_set<Value> sums;
    bool is_issued = false;
    for (const ScheduledOp& scheduled : order_.ops) {
      is_issued = is_issued || scheduled.op == dot.op;
      const bool is_dot = graph_.find(scheduled.op) != nullptr;
      const auto is_awaited = [&](Value v) { return sums.contains(v); };
      if (!is_dot && std::ranges::any_of(used_by(k_, scheduled.op), is_awaited))
        return position_.at(scheduled.op);
      if (is_issued && is_dot) sums.insert(k_[scheduled.op].results[0]);
    }
    return end_;
  }

  void add(std::size_t from, std::size_t to, std::int64_t registers) {
    if (changes_.size() <= end_) changes_.resize(end_ + 1);
    changes_[from] += registers;
    changes_[std::max(to, from + 1)] -= registers;
  }

  const Kernel& k_;
  const DotGraph& graph_;
  const LoopOrder& order_;
  RegionId body_;
  std::unordered_map<OpId, std::size_t> position_;
  std::size_t end_ = 0;                ///< positions in the order
  std::vector<std::int64_t> changes_;  ///< of the number of live registers, by position
};

}  // namespace

std::int64_t live_registers(const Kernel& k, const DotGraph& graph) {
  const Graph nodes = Graph::without_edges(k);
  const PlacementConstraints special = placement_constraints(k, graph);
  PassContext unused;
  const LoopSchedule steps = steps_of(k, nodes, graph, special, unused);
  return LiveRanges(k, graph, loop_order(k, nodes, graph, special, steps)).most();
}

}  // namespace tegula::ir
