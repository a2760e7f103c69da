#include "ir/passes/dot_graph/loop_order.h"

#include <algorithm>
#include <ranges>

#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/schedule/schedule.h"
#include "ir/uses.h"

namespace tegula::ir {

PlacementConstraints placement_constraints(const Kernel& k, const DotGraph& dots) {
  const RegionId body = k[dots.loop].regions[0];
  const Uses uses(k);
  PlacementConstraints found;
  std::unordered_set<OpId> kept;
  // Add the conversions after the tile, and the ops that make the tile (round it, mask it) if only
  // the dot reads the result.
  for (const GraphDot& dot : dots.dots) {
    const DotOperand& a = dot.operands[0];
    if (a.form != OperandForm::Register) continue;
    std::vector<OpId>& made = found.fragments[dot.op];
    const auto add = [&](OpId op) {
      if (k[op].parent == body && kept.insert(op).second) made.push_back(op);
    };
    Value v = k[dot.op].operands[0];
    for (; v != a.tile; v = k[k[v].def].operands[0]) add(k[v].def);
    for (OpId def = k[v].def; def && is_movable(k[def]) && uses.count(v) == 1; def = k[v].def) {
      if (k[def].opcode == Opcode::Dot) break;
      add(def);
      if (!k[def].is(Opcode::Cast, Opcode::ConvertLayout, Opcode::Select)) break;
      v = k[def].operands[k[def].opcode == Opcode::Select ? 1 : 0];
      const OpId next = k[v].def;
      if (!next || !k[next].is(Opcode::Cast, Opcode::ConvertLayout, Opcode::Select)) break;
    }
    std::ranges::reverse(made);
  }
  std::vector<OpId> ops;
  for (OpId op : k.ops(body)) ops.push_back(op);
  for (OpId op : std::views::reverse(ops)) {
    if (!k[op].is(Opcode::Permute, Opcode::ConvertLayout) || kept.contains(op)) continue;
    const auto is_free = [&](const Uses::Use& use) {
      if (const GraphDot* dot = dots.find(use.op))
        return use.operand < 2 && dot->operands[use.operand].form != OperandForm::Register;
      return found.dropped.contains(use.op);
    };
    const auto users = uses.of(k[op].results[0]);
    if (!users.empty() && std::ranges::all_of(users, is_free)) found.dropped.insert(op);
  }
  for (OpId op : ops)
    if (dots.is_copied(op)) found.dropped.insert(op);
  // Index tiles that only copies need are computed with these.
  for (OpId op : std::views::reverse(ops)) {
    const auto users =
        k[op].results.size() == 1 ? uses.of(k[op].results[0]) : std::span<const Uses::Use>();
    if (!users.empty() && dots.computes_indices(k, op) &&
        std::ranges::all_of(users, [&](const auto& use) { return found.dropped.contains(use.op); }))
      found.dropped.insert(op);
  }
  return found;
}

namespace {

/// Returns true for ops with effects or reads of memory, which keep their order. A nest of pure ops
/// has no effect.
bool has_effect(const Kernel& k, OpId op) {
  return any_op(k, op, [&](OpId o) {
    return !info(k[o].opcode).has(kPure) &&
           !k[o].is(Opcode::Yield, Opcode::If, Opcode::For, Opcode::Dot);
  });
}

/// Returns the values that an op needs. For the operands that a dot reads from shared memory, these
/// are the tiles before conversions.
std::vector<Value> needed_by(const Kernel& k, const DotGraph& dots, OpId op) {
  const GraphDot* dot = dots.find(op);
  if (!dot) return used_by(k, op);
  std::vector<Value> needed{k[op].operands[2]};
  for (std::size_t i : {0U, 1U}) {
    const DotOperand& operand = dot->operands[i];
    needed.push_back(operand.form == OperandForm::Register ? k[op].operands[i] : operand.tile);
  }
  return needed;
}

/// Returns the node of an op, or nothing for loads that are copied ahead, which each op reads in
/// its own stage.
std::optional<std::size_t> node_of(const Graph& graph, const DotGraph& dots, OpId op) {
  const auto node = graph.find(op);
  return node && dots.is_copied(graph[*node].ops.front()) ? std::nullopt : node;
}

class Ordering {
 public:
  Ordering(const Kernel& k, const Graph& graph, const DotGraph& dots,
           const PlacementConstraints& special, const LoopSchedule& schedule)
      : k_(k),
        graph_(graph),
        dots_(dots),
        schedule_(schedule),
        body_(k[dots.loop].regions[0]),
        skipped_(special.dropped) {
    for (const auto& [dot, ops] : special.fragments)
      order_.fragments.insert(ops.begin(), ops.end());
  }

  LoopOrder run() {
    std::vector<Step> steps = schedule_.steps;
    std::erase_if(steps, [&](const Step& step) { return ops_of(step).empty(); });
    std::ranges::stable_sort(steps, {}, &Step::order);
    // If the consumers issue loads themselves, their stages are relative to the first stage that
    // computes.
    if (!steps.empty()) first_stage_ = std::ranges::min_element(steps, {}, &Step::stage)->stage;
    for (Step& step : steps) {
      step.stage = static_cast<std::int8_t>(step.stage - first_stage_);
      read(step);
    }
    const OpId end = k_.terminator(body_);
    int position = 0;
    for (OpId op : k_.ops(body_)) {
      positions_[op] = position++;
      if (op != end && !skipped_.contains(op) && !node(op) && has_effect(k_, op))
        effects_.push_back(op);
    }
    for (const Step& step : steps)
      for (OpId op : listed_by(step)) place(op, step.stage);
    for (OpId op : k_.ops(body_))
      if (op != end && node(op)) place(op, order_.stage(op));
    flush_effects(position);
    for (Value v : k_[end].operands) place_what_makes(v, 0);
    return std::move(order_);
  }

 private:
  std::optional<std::size_t> node(OpId op) const { return node_of(graph_, dots_, op); }

  std::vector<OpId> ops_of(const Step& step) const {
    const auto node_index = graph_.find(step.op);
    if (!node_index || graph_[*node_index].region != body_ ||
        !node(graph_[*node_index].ops.front()))
      return {};
    return graph_[*node_index].ops;
  }

  /// Conversions of tiles that threads load are placed where they are needed, so that no more
  /// registers are live next to accumulators than in text order.
  std::vector<OpId> listed_by(const Step& step) const {
    std::vector<OpId> ops = ops_of(step);
    if (!ops.empty() && k_[ops.front()].opcode == Opcode::LoadView) ops.resize(1);
    return ops;
  }

  void read(const Step& step) {
    for (OpId op : listed_by(step)) listed_.insert(op);
    for (OpId op : ops_of(step)) {
      order_.stages[op] = step.stage;
      if (step.in_flight > 0 && k_[op].opcode == Opcode::Dot) order_.in_flight.insert(op);
      if (step.pin) order_.pinned.insert(op);
    }
    order_.last_stage = std::max<int>(order_.last_stage, step.stage);
  }

  void place_what_makes(Value v, int stage) {
    const OpId def = k_[v].def;
    if (!def || k_[def].parent != body_) return;
    if (const auto made_by = node(def))
      for (OpId op : graph_[*made_by].ops) order_.stages.try_emplace(op, stage);
    if (node(def) && order_.stage(def) < stage) return;  // by an earlier step
    if (listed_.contains(def) && !placed_.contains(def) && !skipped_.contains(def))
      order_.is_possible = false;
    place(def, node(def) ? order_.stage(def) : stage);
  }

  void place(OpId op, int stage) {
    if (skipped_.contains(op)) return;
    if (node(op) ? !placed_.insert(op).second : !instances_[op].insert(stage).second) return;
    for (Value v : needed_by(k_, dots_, op)) place_what_makes(v, stage);
    if (stage == 0 && has_effect(k_, op)) flush_effects(positions_.at(op));
    order_.ops.push_back({op, stage});
  }

  /// Places the effects that precede this position in the text.
  void flush_effects(int position) {
    while (next_effect_ < effects_.size() && positions_.at(effects_[next_effect_]) < position)
      place(effects_[next_effect_++], 0);
  }

  const Kernel& k_;
  const Graph& graph_;
  const DotGraph& dots_;
  const LoopSchedule& schedule_;
  RegionId body_;
  LoopOrder order_;
  int first_stage_ = 0;
  std::unordered_set<OpId> skipped_, listed_, placed_;
  std::unordered_map<OpId, std::unordered_set<int>> instances_;  ///< stages of ops without a node
  std::unordered_map<OpId, int> positions_;                      ///< in the text
  std::vector<OpId> effects_;                                    ///< without a node, in text order
  std::size_t next_effect_ = 0;
};

/// The default policy: all steps are in stage 0, and each dot is as early as its operands allow.
/// The order is topological: dots come first, those whose result the iteration reads before others;
/// all other ops are in text order. Steps are added one unit at a time: the ops of a node, or an op
/// without a node.
class EarlyDots {
 public:
  EarlyDots(const Kernel& k, const Graph& graph, const DotGraph& dots,
            const PlacementConstraints& special)
      : k_(k),
        graph_(graph),
        dots_(dots),
        special_(special),
        uses_(k),
        body_(k[dots.loop].regions[0]) {}

  LoopSchedule run() {
    collect();
    schedule_.loop = graph_.label_of(dots_.loop);
    while (!remaining_.empty()) {
      const auto next = pick();
      const std::size_t unit = *next;
      remaining_.erase(next);
      for (std::size_t fragment : units_[unit].fragments) place(fragment);
      place(unit);
    }
    // The last dots stay in flight past the end of the iteration if no iteration reads their sums.
    for (Step& step : std::views::reverse(schedule_.steps)) {
      const OpId op = graph_[*graph_.find(step.op)].ops.front();
      if (!dots_.find(op)) continue;
      if (is_read(op)) break;
      step.in_flight = 1;
    }
    return std::move(schedule_);
  }

 private:
  struct Unit {
    std::vector<OpId> ops;
    std::vector<std::size_t> needs;
    std::vector<std::size_t> fragments;  ///< of a dot: units that only make its fragments
    bool is_fragment = false;
  };

  void place(std::size_t unit) {
    placed_.insert(unit);
    const auto node = node_of(graph_, dots_, units_[unit].ops.front());
    if (!node) return;
    Step step;
    step.op = graph_[*node].label;
    step.order = static_cast<std::int16_t>(schedule_.steps.size());
    schedule_.steps.push_back(step);
  }

  void collect() {
    const OpId end = k_.terminator(body_);
    std::unordered_map<std::size_t, std::size_t> unit_of_node;
    for (OpId op : k_.ops(body_)) {
      if (op == end || special_.dropped.contains(op)) continue;
      const auto node = node_of(graph_, dots_, op);
      const auto known = node ? unit_of_node.find(*node) : unit_of_node.end();
      const std::size_t unit = known == unit_of_node.end() ? units_.size() : known->second;
      if (unit == units_.size()) units_.emplace_back();
      if (node) unit_of_node[*node] = unit;
      units_[unit].ops.push_back(op);
      unit_of_[op] = unit;
    }
    std::optional<std::size_t> last_effect;
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      for (OpId op : units_[unit].ops) {
        for (Value v : needed_by(k_, dots_, op))
          if (const OpId def = k_[v].def; def && unit_of_.contains(def)) need(unit, unit_of_[def]);
        if (!has_effect(k_, op)) continue;
        if (last_effect) need(unit, *last_effect);
        last_effect = unit;
      }
    find_fragments();
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      if (!units_[unit].is_fragment) remaining_.push_back(unit);
  }

  void need(std::size_t unit, std::size_t other) {
    if (unit != other) units_[unit].needs.push_back(other);
  }

  /// Units that make only the fragments of a dot go directly before it.
  void find_fragments() {
    for (const auto& [dot, ops] : special_.fragments) {
      Unit& reader = units_[unit_of_.at(dot)];
      for (OpId op : ops) {
        const std::size_t made = unit_of_.at(op);
        const bool makes_only_these = std::ranges::all_of(
            units_[made].ops, [&](OpId o) { return std::ranges::find(ops, o) != ops.end(); });
        if (!makes_only_these || std::exchange(units_[made].is_fragment, true)) continue;
        reader.fragments.push_back(made);
      }
      for (std::size_t made : reader.fragments)
        for (std::size_t needed : units_[made].needs) reader.needs.push_back(needed);
      std::erase_if(reader.needs, [&](std::size_t u) { return units_[u].is_fragment; });
    }
  }

  bool is_ready(std::size_t unit) const {
    return std::ranges::all_of(units_[unit].needs,
                               [&](std::size_t need) { return placed_.contains(need); });
  }

  /// Returns true if the same iteration reads the dot's result, not only the next one.
  bool is_read(OpId dot) const {
    return std::ranges::any_of(uses_.of(k_[dot].results[0]), [&](const Uses::Use& use) {
      return use.op != k_.terminator(body_);
    });
  }

  std::vector<std::size_t>::iterator pick() {
    enum { Free, ReadDot, Dot, Other, NotReady };
    const auto rank = [&](std::size_t unit) {
      const OpId op = units_[unit].ops.front();
      if (!is_ready(unit)) return NotReady;
      if (!node_of(graph_, dots_, op)) return Free;  // it is placed where it is needed
      return !dots_.find(op) ? Other : is_read(op) ? ReadDot : Dot;
    };
    return std::ranges::min_element(remaining_, {}, rank);
  }

  const Kernel& k_;
  const Graph& graph_;
  const DotGraph& dots_;
  const PlacementConstraints& special_;
  Uses uses_;
  RegionId body_;
  LoopSchedule schedule_;
  std::vector<Unit> units_;
  std::unordered_map<OpId, std::size_t> unit_of_;
  std::vector<std::size_t> remaining_;
  std::unordered_set<std::size_t> placed_;
};

}  // namespace

LoopOrder loop_order(const Kernel& k, const Graph& graph, const DotGraph& dots,
                     const PlacementConstraints& special, const LoopSchedule& schedule) {
  return Ordering(k, graph, dots, special, schedule).run();
}

namespace {

/// Returns why the expansion cannot follow the order; empty if it can. Each value must be made
/// before it is read, in the steps of the loop.
std::string why_not_expandable(const Kernel& k, const DotGraph& dots, const LoopOrder& order) {
  if (!order.is_possible) return "an op precedes one whose result it reads";
  if (order.last_stage > 1) return "dots are skewed by more than one iteration";
  if (order.last_stage > 0 && !dots.gathers.empty())
    return "cp.async copies for a late stage are not supported";
  const RegionId body = k[dots.loop].regions[0];
  const auto nexts = loop_nexts(k, dots.loop);
  for (Value v : nexts)
    if (order.last_stage > 0 && !k[v].def && k[v].region == body)
      return "a loop carry passes a value on over two iterations";
  std::unordered_set<OpId> placed;
  for (const ScheduledOp& scheduled : order.ops) {
    for (Value v : needed_by(k, dots, scheduled.op)) {
      const bool is_carry = !k[v].def && k[v].region == body && k[v].position > 0;
      const OpId def = is_carry ? k[nexts[k[v].position - 1]].def : k[v].def;
      if (!def || k[def].parent != body || !order.stages.contains(def)) continue;
      const int age = scheduled.stage - order.stage(def) + (is_carry ? 1 : 0);
      if (age < 0 || (age == 0 && !placed.contains(def)))
        return "an op precedes one whose result it reads";
      const auto is_stored = std::ranges::find(dots.shared, v) != dots.shared.end();
      if (is_stored && dots.find(scheduled.op) && age > 0)
        return "a tile in shared memory is read in a later stage than it is stored in";
    }
    placed.insert(scheduled.op);
  }
  return {};
}

/// Returns the ops of the loop's body that depend on the value, directly, in nested ops or through
/// other ops.
std::unordered_set<OpId> dependents(const Kernel& k, RegionId body, Value on) {
  std::unordered_set<Value> reached{on};
  std::unordered_set<OpId> found;
  for (OpId op : k.ops(body)) {
    const auto used = used_by(k, op);
    if (std::ranges::none_of(used, [&](Value v) { return reached.contains(v); })) continue;
    found.insert(op);
    reached.insert(k[op].results.begin(), k[op].results.end());
  }
  return found;
}

/// Returns the loop's carry whose next value is the dot's sum, or null.
Value carry_of(const Kernel& k, const DotGraph& dots, OpId dot) {
  const auto nexts = loop_nexts(k, dots.loop);
  const auto found = std::ranges::find(nexts, k[dot].results[0]);
  return found == nexts.end()
             ? Value()
             : body_carries(k, dots.loop)[static_cast<std::size_t>(found - nexts.begin())];
}

}  // namespace

OpId late_gemm(const Kernel& k, const DotGraph& dots) {
  if (dots.dots.size() != 2 || has_inner_mma(k, dots.loop)) return {};
  const GraphDot &first = dots.dots[0], &second = dots.dots[1];
  if (second.operands[0].form != OperandForm::Register ||
      Uses(k).count(k[second.op].results[0]) != 1)
    return {};
  // A slot that both read is free only after the late one.
  const OperandLoad* b = dots.ring_load(k, second.operands[1].tile);
  const Value sum = carry_of(k, dots, second.op);
  if (!sum || !b || b->dots.size() > 1) return {};
  return dependents(k, k[dots.loop].regions[0], sum).contains(first.op) ? OpId() : second.op;
}

namespace {

/// The policy for two back-to-back GEMMs (FlashAttention-3, 3.2): GEMM1 runs one iteration late and
/// overlaps the ops that do not need its sum. The order of a step is: ops before GEMM0, both GEMMs,
/// ops that do not need GEMM1's sum, nodes that also make fragments, and ops that need that sum or
/// make only fragments. Within each group the text order is kept.
class SkewedSteps {
 public:
  SkewedSteps(const Kernel& k, const Graph& graph, const DotGraph& dots,
              const PlacementConstraints& special, OpId late)
      : k_(k),
        graph_(graph),
        dots_(dots),
        late_(late),
        needs_sum_(dependents(k, k[dots.loop].regions[0], carry_of(k, dots, late))),
        fragments_(special.fragments.at(late)) {}

  LoopSchedule run() {
    const RegionId body = k_[dots_.loop].regions[0];
    schedule_.loop = graph_.label_of(dots_.loop);
    // The position of a node is that of its last op, because the ops of two nodes may be
    // interleaved.
    std::vector<std::size_t> nodes;
    for (OpId op : k_.ops(body))
      if (const auto node = node_of(graph_, dots_, op); node && graph_[*node].ops.back() == op)
        nodes.push_back(*node);
    const auto gemm0 = std::ranges::find(nodes, *graph_.find(dots_.dots.front().op));
    const std::unordered_set<std::size_t> before_gemm0(nodes.begin(), gemm0);
    std::ranges::stable_sort(
        nodes, {}, [&](std::size_t i) { return place(graph_[i], before_gemm0.contains(i)); });
    remaining_.insert(nodes.begin(), nodes.end());
    for (std::size_t i : nodes) add(i);
    return std::move(schedule_);
  }

 private:
  /// Adds the step of a node, after those of the nodes that it needs.
  void add(std::size_t node) {
    if (remaining_.erase(node) == 0) return;
    const OpId op = graph_[node].ops.front();
    const bool is_late = op == late_;
    for (OpId o : graph_[node].ops)
      for (Value v : used_by(k_, o))
        if (const auto needed = k_[v].def ? graph_.find(k_[v].def) : std::nullopt;
            needed && !is_late)
          add(*needed);
    Step& step = schedule_.steps.emplace_back();
    step.op = graph_[node].label;
    step.order = static_cast<std::int16_t>(schedule_.steps.size() - 1);
    step.stage = is_late ? 1 : 0;
    step.in_flight = dots_.find(op) ? 1 : 0;
    step.pin = is_late;
  }

  int place(const Node& node, bool is_before_gemm0) const {
    enum { BeforeGemm0, Gemm0, Gemm1, Independent, WithFragments, AfterGemm1 };
    const OpId op = node.ops.front();
    if (op == late_) return Gemm1;
    if (dots_.find(op)) return Gemm0;
    const auto makes_fragments = [&](OpId o) {
      return std::ranges::find(fragments_, o) != fragments_.end();
    };
    const auto needs_sum = [&](OpId o) { return needs_sum_.contains(o); };
    if (std::ranges::any_of(node.ops, needs_sum) || std::ranges::all_of(node.ops, makes_fragments))
      return AfterGemm1;
    if (std::ranges::any_of(node.ops, makes_fragments)) return WithFragments;
    return is_before_gemm0 ? BeforeGemm0 : Independent;
  }

  const Kernel& k_;
  const Graph& graph_;
  const DotGraph& dots_;
  OpId late_;
  std::unordered_set<OpId> needs_sum_;  ///< ops that need GEMM1's sum
  const std::vector<OpId>& fragments_;
  std::unordered_set<std::size_t> remaining_;  ///< nodes without a step
  LoopSchedule schedule_;
};

/// Returns why the expansion cannot follow the steps; empty if it can. Waits retire the MMAs of the
/// previous iteration, so no MMA can stay in flight for longer.
std::string explain_rejection(const Kernel& k, const Graph& graph, const DotGraph& dots,
                              const PlacementConstraints& special, const LoopSchedule& wanted) {
  if (std::ranges::any_of(wanted.steps, [](const Step& s) { return s.in_flight > 1; }))
    return "MMAs of more than one iteration stay in flight";
  return why_not_expandable(k, dots, loop_order(k, graph, dots, special, wanted));
}

}  // namespace

LoopSchedule steps_of(const Kernel& k, const Graph& graph, const DotGraph& dots,
                      const PlacementConstraints& special, PassContext& context) {
  if (context.planned.schedule) {
    if (const LoopSchedule* wanted =
            context.planned.schedule->find_loop(graph.label_of(dots.loop))) {
      const std::string why = explain_rejection(k, graph, dots, special, *wanted);
      if (why.empty()) return *wanted;
      context.remark(Remark::Kind::Missed, k[dots.loop].loc, "schedule not followed: " + why);
    }
  }
  if (dots.rings == RingGrouping::Skewed)
    return SkewedSteps(k, graph, dots, special, dots.dots.back().op).run();
  return EarlyDots(k, graph, dots, special).run();
}

OrderedSection ordered_section_of(const Graph& graph, const DotGraph& dots, const LoopOrder& order,
                                  const Schedule* wanted) {
  const auto range = [&](const auto& is_first, const auto& is_last) {
    const auto first = std::ranges::find_if(order.ops, is_first, &ScheduledOp::op);
    const auto backwards = std::views::reverse(order.ops);
    const auto last = std::ranges::find_if(backwards, is_last, &ScheduledOp::op);
    if (first == order.ops.end() || last == backwards.end()) return OrderedSection();
    return OrderedSection{first->op, last->op};
  };
  if (wanted && !wanted->tokens.empty()) {
    const auto has_label = [&](Label label) {
      return [&graph, label](OpId op) { return graph.label_of(op) == label; };
    };
    for (const Token& token : wanted->tokens)
      if (const OrderedSection turn = range(has_label(token.first), has_label(token.last));
          turn.first)
        return turn;
    return {};
  }
  if (dots.dots.size() < 2) return {};
  const auto is_dot = [&](OpId op) { return dots.find(op) != nullptr; };
  return range(is_dot, is_dot);
}

}  // namespace tegula::ir
