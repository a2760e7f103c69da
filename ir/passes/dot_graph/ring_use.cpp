#include "ir/passes/dot_graph/ring_use.h"

#include <algorithm>
#include <optional>
#include <ranges>

#include "ir/analysis/index_facts.h"
#include "ir/loop.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

class Finder {
 public:
  Finder(const Kernel& k, const DotGraph& graph, const LoopOrder& order)
      : k_(k), graph_(graph), order_(order) {}

  std::vector<OperandPipeline> run() {
    add_given_channels();
    if (graph_.rings == RingGrouping::Single)
      for (const OperandLoad& load : graph_.loads) add_to_ring(0, load);
    const bool is_separate = graph_.rings == RingGrouping::Skewed;
    for (const ScheduledOp& scheduled : order_.ops)
      if (!is_separate || graph_.find(scheduled.op)) add_ring(scheduled.op);
    if (is_separate) add_ring_of_others();
    for (const ScheduledOp& scheduled : order_.ops)
      for (Value v : tiles_of(scheduled.op))
        if (const OperandLoad* load = graph_.ring_load(k_, v)) add_reader(*load, scheduled);
    for (OperandPipeline& use : uses_)
      std::ranges::stable_sort(use.ring_loads, {}, &OperandLoad::order);
    std::ranges::stable_sort(uses_, {},
                             [](const OperandPipeline& u) { return u.ring_loads.front().order; });
    return std::move(uses_);
  }

 private:
  std::vector<Value> tiles_of(OpId op) const {
    const GraphDot* dot = graph_.find(op);
    if (!dot) return used_by(k_, op);
    return {dot->operands[0].tile, dot->operands[1].tile};
  }

  void add_ring(OpId op) {
    std::vector<const OperandLoad*> fresh;
    for (Value v : tiles_of(op))
      if (const OperandLoad* load = graph_.ring_load(k_, v))
        if (!ring_of_.contains(load->load) && std::ranges::find(fresh, load) == fresh.end())
          fresh.push_back(load);
    if (fresh.empty()) return;
    const bool joins = !graph_.find(op) && !uses_.empty();
    const std::size_t ring = uses_.size() - (joins ? 1 : 0);
    for (const OperandLoad* load : fresh) add_to_ring(ring, *load);
  }

  void add_ring_of_others() {
    const std::size_t ring = uses_.size();
    for (const OperandLoad& load : graph_.loads) add_to_ring(ring, load);
  }

  /// The loads of a channel of the author's Schedule share a ring.
  void add_given_channels() {
    std::unordered_map<int, std::size_t> ring_of_channel;
    for (const OperandLoad& load : graph_.loads)
      if (load.channel >= 0)
        add_to_ring(ring_of_channel.try_emplace(load.channel, uses_.size()).first->second, load);
  }

  /// Adds a load to a ring unless it is in one already. The ring may be a new one after all others.
  void add_to_ring(std::size_t ring, const OperandLoad& load) {
    if (!ring_of_.try_emplace(load.load, ring).second) return;
    if (ring == uses_.size()) uses_.emplace_back().first_stage = order_.last_stage;
    uses_[ring].ring_loads.push_back(load);
  }

  void add_reader(const OperandLoad& load, const ScheduledOp& reader) {
    OperandPipeline& use = uses_[ring_of_.at(load.load)];
    use.first_stage = std::min(use.first_stage, reader.stage);
    if (reader.stage > use.last_stage) {
      use.last_stage = reader.stage;
      use.dots.clear();
      use.loads.clear();
    }
    const bool is_dot = graph_.find(reader.op) != nullptr;
    use.has_threads |= !is_dot;
    if (reader.stage == use.last_stage)
      is_dot ? use.dots.insert(reader.op) : use.loads.insert(load.load);
  }

  const Kernel& k_;
  const DotGraph& graph_;
  const LoopOrder& order_;
  std::vector<OperandPipeline> uses_;
  std::unordered_map<OpId, std::size_t> ring_of_;  ///< of each load
};

std::optional<std::size_t> pending_carry(const Kernel& k, const Uses& uses, OpId loop,
                                         const GraphDot& dot) {
  const Value sum = k[dot.op].results[0], acc = k[dot.op].operands[2];
  const auto carries = body_carries(k, loop);
  for (std::size_t i = 0; i < carries.size(); ++i)
    if (carries[i] == acc && loop_nexts(k, loop)[i] == sum && uses.count(sum) == 1 &&
        uses.count(acc) == 1 && is_zero(k, loop_inits(k[loop])[i]))
      return i;
  return std::nullopt;
}

}  // namespace

std::vector<OperandPipeline> ring_uses(const Kernel& k, const DotGraph& graph,
                                       const LoopOrder& order) {
  return Finder(k, graph, order).run();
}

std::vector<PendingAccumulator> pending_accumulators(const Kernel& k, const DotGraph& graph,
                                                     const LoopOrder& order) {
  if (order.last_stage > 0 || has_inner_mma(k, graph.loop)) return {};
  const Uses uses(k);
  std::vector<PendingAccumulator> found;
  for (const GraphDot& dot : graph.dots) {
    const auto carry = pending_carry(k, uses, graph.loop, dot);
    if (!carry) return {};
    found.push_back({dot.op, *carry, loop_inits(k[graph.loop])[*carry]});
  }
  return found;
}

std::vector<PendingAccumulator> trailing_accumulators(const Kernel& k, const DotGraph& graph,
                                                      const LoopOrder& order) {
  if (order.last_stage > 0 || has_inner_mma(k, graph.loop) || !graph.gathers.empty()) return {};
  const Uses uses(k);
  std::vector<PendingAccumulator> found;
  for (const ScheduledOp& scheduled : std::views::reverse(order.ops)) {
    const GraphDot* dot = graph.find(scheduled.op);
    if (!dot) continue;
    const auto carry = pending_carry(k, uses, graph.loop, *dot);
    const auto is_in_memory = [](const DotOperand& operand) {
      return operand.form == OperandForm::Ring || operand.form == OperandForm::Shared;
    };
    if (!carry || !order.in_flight.contains(dot->op) ||
        !std::ranges::all_of(dot->operands, is_in_memory))
      break;
    found.push_back({dot->op, *carry, loop_inits(k[graph.loop])[*carry]});
  }
  std::ranges::reverse(found);
  return found.size() == graph.dots.size() ? std::vector<PendingAccumulator>() : found;
}

bool stay_in_flight(const DotGraph& graph, const LoopOrder& order) {
  const auto is_made = [](const DotOperand& operand) {
    return operand.form == OperandForm::Register || operand.form == OperandForm::Shared;
  };
  return std::ranges::all_of(graph.dots, [&](const GraphDot& dot) {
    return order.in_flight.contains(dot.op) && std::ranges::none_of(dot.operands, is_made);
  });
}

}  // namespace tegula::ir
