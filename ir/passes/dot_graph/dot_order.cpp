#include "ir/passes/dot_graph/dot_order.h"

#include <algorithm>
#include <ranges>

#include "ir/clone_op.h"
#include "ir/uses.h"

namespace tegula::ir {

std::vector<Value> used_by(const Kernel& k, OpId op) {
  std::vector<Value> used;
  any_op(k, op, [&](OpId o) {
    used.insert(used.end(), k[o].operands.begin(), k[o].operands.end());
    return false;
  });
  return used;
}

namespace {

class Sorter {
 public:
  Sorter(const Kernel& k, const DotGraph& graph)
      : k_(k), graph_(graph), body_(k[graph.loop].regions[0]), uses_(k) {}

  DotOrder run() {
    find_fragments();
    find_dropped();
    collect();
    while (!left_.empty()) {
      const auto next = pick();
      placed_.insert(*next);
      order_.ops.push_back(*next);
      left_.erase(next);
    }
    return std::move(order_);
  }

 private:
  /// From the tile on: what makes it (rounds it, masks it), if only the dot takes the result, and
  /// conversions.
  void find_fragments() {
    for (const GraphDot& dot : graph_.dots) {
      const DotOperand& a = dot.operands[0];
      if (a.form != OperandForm::Register) continue;
      std::vector<OpId>& made = order_.fragments[dot.op];
      Value v = k_[dot.op].operands[0];
      for (; v != a.tile; v = k_[k_[v].def].operands[0]) add_fragment(made, k_[v].def);
      const OpId def = k_[v].def;
      if (def && is_movable(k_[def]) && k_[def].opcode != Opcode::Dot && uses_.count(v) == 1)
        add_fragment(made, def);
      std::ranges::reverse(made);
    }
  }
  void add_fragment(std::vector<OpId>& made, OpId op) {
    if (k_[op].parent != body_) return;
    made.push_back(op);
    skipped_.insert(op);
  }

  void find_dropped() {
    std::vector<OpId> ops;
    for (OpId op : k_.ops(body_)) ops.push_back(op);
    for (OpId op : std::views::reverse(ops)) {
      if (!k_[op].is(Opcode::Permute, Opcode::ConvertLayout) || skipped_.contains(op)) continue;
      const auto is_free = [&](const Uses::Use& use) {
        if (const GraphDot* dot = graph_.find(use.op))
          return use.operand < 2 && dot->operands[use.operand].form != OperandForm::Register;
        return dropped_.contains(use.op);
      };
      const auto users = uses_.of(k_[op].results[0]);
      if (users.empty() || !std::ranges::all_of(users, is_free)) continue;
      order_.dropped.push_back(op);
      dropped_.insert(op);
    }
    skipped_.insert(dropped_.begin(), dropped_.end());
  }

  void collect() {
    for (const OperandLoad& load : graph_.loads) skipped_.insert(load.load);
    const OpId end = k_.terminator(body_);
    OpId last_effect;
    for (OpId op : k_.ops(body_)) {
      if (op == end || skipped_.contains(op)) continue;
      left_.push_back(op);
      add_needs(op);
      const bool is_pure = !any_op(k_, op, [&](OpId o) {
        return !info(k_[o].opcode).has(kPure) && !k_[o].is(Opcode::Yield, Opcode::If, Opcode::For);
      });
      if (is_pure || k_[op].opcode == Opcode::Dot) continue;
      if (last_effect) needs_[op].push_back(last_effect);
      last_effect = op;
    }
  }

  void add_needs(OpId op) {
    std::vector<Value> used;
    if (const GraphDot* dot = graph_.find(op)) {
      used.push_back(k_[op].operands[2]);
      for (const DotOperand& operand : dot->operands) used.push_back(operand.tile);
      if (const auto it = order_.fragments.find(op); it != order_.fragments.end())
        for (OpId made : it->second)
          used.insert(used.end(), k_[made].operands.begin(), k_[made].operands.end());
    } else {
      used = used_by(k_, op);
    }
    for (Value v : used)
      if (const OpId def = k_[v].def; def && k_[def].parent == body_ && !skipped_.contains(def))
        needs_[op].push_back(def);
  }

  bool is_ready(OpId op) const {
    const auto it = needs_.find(op);
    return it == needs_.end() ||
           std::ranges::all_of(it->second, [&](OpId need) { return placed_.contains(need); });
  }

  /// Whether the iteration reads the dot's result, and not only the next one.
  bool is_read(OpId dot) const {
    return std::ranges::any_of(uses_.of(k_[dot].results[0]), [&](const Uses::Use& use) {
      return use.op != k_.terminator(body_);
    });
  }

  std::vector<OpId>::iterator pick() {
    const auto first = [&](auto wanted) {
      return std::ranges::find_if(left_, [&](OpId op) { return wanted(op) && is_ready(op); });
    };
    const auto is_dot = [&](OpId op) { return k_[op].opcode == Opcode::Dot; };
    if (const auto it = first([&](OpId op) { return k_[op].opcode == Opcode::Const; });
        it != left_.end())
      return it;
    if (const auto it = first([&](OpId op) { return is_dot(op) && is_read(op); });
        it != left_.end())
      return it;
    if (const auto it = first(is_dot); it != left_.end()) return it;
    return first([](OpId) { return true; });
  }

  const Kernel& k_;
  const DotGraph& graph_;
  RegionId body_;
  Uses uses_;
  DotOrder order_;
  std::vector<OpId> left_;
  std::unordered_map<OpId, std::vector<OpId>> needs_;
  std::unordered_set<OpId> placed_, skipped_, dropped_;
};

}  // namespace

DotOrder order_of(const Kernel& k, const DotGraph& graph) { return Sorter(k, graph).run(); }

}  // namespace tegula::ir
