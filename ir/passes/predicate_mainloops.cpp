// Hoists mainloops out of branches of the kernel's body, so that their copies can run ahead. The
// branch's condition then selects the end of the loop.
//
// Before:  if c { a = load_view ..; s = for lo, hi { .. dot .. }; store_view ..; effects }
// After:   a = load_view ..; s = for lo, select c, hi, lo { .. dot .. } [predicated]
//          if c { store_view ..; effects }
// Loads of boxes of In views and pure ops that a mainloop needs are computed whether the condition
// holds or not; everything else stays in a branch. A store does not need the branch if its tile is
// cropped to nothing unless the condition, first < end, holds, as in ragged segments.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/builder.h"
#include "ir/loop.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// Returns true if the loop, or a loop in it, contains a dot that is not under a condition.
bool is_mainloop(const Kernel& k, OpId op) {
  if (k[op].opcode != Opcode::For) return false;
  for (OpId inner : k.ops(k[op].regions[0]))
    if (k[inner].opcode == Opcode::Dot || is_mainloop(k, inner)) return true;
  return false;
}

class BranchOfMainloops {
 public:
  BranchOfMainloops(Kernel& k, OpId branch)
      : k_(k), branch_(branch), condition_(k[branch].operands[0]) {
    const RegionId then = k[branch].regions[0];
    for (OpId op : k.ops(then))
      if (op != k.terminator(then)) ops_.push_back(op);
  }

  bool applies() const {
    const RegionId otherwise = k_[branch_].regions[1];
    return k_[otherwise].first == k_.terminator(otherwise) &&
           std::ranges::any_of(ops_, [&](OpId op) { return is_mainloop(k_, op); });
  }

  void run() {
    for (OpId op : ops_)
      if (is_mainloop(k_, op) || is_dropped_store(op)) take_out(op);
    for (Value v : k_[k_.terminator(k_[branch_].regions[0])].operands) take_out(k_[v].def);
    while (!divide_into_groups()) {
    }
    move();
  }

 private:
  bool is_own(OpId op) const { return op && std::ranges::find(ops_, op) != ops_.end(); }
  bool is_out(OpId op) const { return out_.contains(op); }
  bool is_pure(OpId op) const { return info(k_[op].opcode).has(kPure); }
  /// Returns true for a division whose divisor may be 0. The branch's condition may exclude that.
  bool may_divide_by_zero(OpId op) const {
    const OpData& d = k_[op];
    return d.is(Opcode::Div, Opcode::Rem) && !is_float(k_.type(d.results[0]).dtype()) &&
           constant_value(k_, d.operands[1]).value_or(0) == 0;
  }
  /// Returns true if the op may be executed whether the condition holds or not. Writable memory is
  /// read only under the condition.
  bool is_free(OpId op) const {
    const OpData& d = k_[op];
    if (d.opcode == Opcode::LoadView)
      return k_.type(d.results[0]).is_tile() &&
             k_.type(accessed_view(d)).view_facts().access == Access::In;
    return is_pure(op) && !may_divide_by_zero(op);
  }

  /// Returns true for a store that is cropped to nothing unless the condition, first < end, holds.
  bool is_dropped_store(OpId op) const {
    const OpData& d = k_[op];
    if (d.opcode != Opcode::StoreView) return false;
    const OpId crop = k_[stored_value(d)].def, test = k_[condition_].def;
    return crop && test && k_[crop].opcode == Opcode::Crop && k_[test].opcode == Opcode::Cmp &&
           k_[test].attrs.s(AttrName::pred) == "lt" &&
           k_[crop].operands[1] == k_[test].operands[0] &&
           k_[crop].operands[2] == k_[test].operands[1];
  }

  /// Returns the ops of the branch whose results the op or an op in it uses.
  std::vector<OpId> sources(OpId op) const {
    std::vector<OpId> found;
    any_op(k_, op, [&](OpId inner) {
      for (Value v : k_[inner].operands)
        if (is_own(k_[v].def)) found.push_back(k_[v].def);
      return false;
    });
    return found;
  }

  /// Hoists the op, and the ops that it needs, out of the branch if they may be executed
  /// unconditionally.
  void take_out(OpId op) {
    if (!is_own(op) || (!is_free(op) && !is_mainloop(k_, op) && !is_dropped_store(op)) ||
        !out_.insert(op).second)
      return;
    for (OpId source : sources(op)) take_out(source);
  }

  /// Divides the remaining ops into branches. An op that is taken out keeps its place among effects
  /// and after the ops that it needs. Returns false if a pure op that several branches use was
  /// taken out.
  bool divide_into_groups() {
    group_.clear();
    int now = 0;
    bool has_effects = false;
    for (OpId op : ops_) {
      const bool needs_now = std::ranges::any_of(sources(op), [&](OpId source) {
        const auto found = group_.find(source);
        return found != group_.end() && found->second == now;
      });
      if (!is_out(op)) {
        group_[op] = now;
        has_effects |= !is_pure(op);
      } else if (needs_now || (has_effects && !is_pure(op))) {
        ++now;
        has_effects = false;
      }
    }
    for (OpId op : ops_)
      for (OpId source : sources(op))
        if (!is_out(source) && is_free(source) && (is_out(op) || group_[op] != group_[source])) {
          take_out(source);
          return false;
        }
    return true;
  }

  void move() {
    int now = -1;
    OpId open;
    for (OpId op : ops_) {
      k_.unlink(op);
      if (is_out(op)) {
        // Before the open branch, unless the op needs a value of it or must keep its order.
        const bool is_after = open && (uses_group(op, now) || (!is_pure(op) && has_effects(now)));
        if (is_after) open = OpId();
        k_.insert_before(open ? open : branch_, op);
        if (is_mainloop(k_, op)) bound_trips(op);
        continue;
      }
      if (!open || group_[op] != now) open = open_branch(op);
      now = group_[op];
      k_.append(k_[open].regions[0], op);
    }
    replace_results();
    k_.erase(branch_);
    for (OpId made : made_) finish(made);
  }

  bool uses_group(OpId op, int group) const {
    return std::ranges::any_of(sources(op), [&](OpId source) {
      const auto found = group_.find(source);
      return found != group_.end() && found->second == group;
    });
  }
  bool has_effects(int group) const {
    return std::ranges::any_of(
        group_, [&](const auto& g) { return g.second == group && !is_pure(g.first); });
  }

  OpId open_branch(OpId first) {
    Builder b(k_, branch_);
    b.loc = k_[first].loc;
    made_.push_back(b.make_if(condition_, {}));
    return made_.back();
  }

  void bound_trips(OpId loop) {
    Builder b(k_, loop);
    const Value lo = k_[loop].operands[0], hi = k_[loop].operands[1];
    const Value bounded = b.select(condition_, hi, lo);
    k_[loop].operands[1] = bounded;
    k_[loop].attrs.set(AttrName::predicated, std::int64_t{1});
  }

  void replace_results() {
    Builder b(k_, branch_);
    const std::vector<Value> results(k_[branch_].results.begin(), k_[branch_].results.end());
    const auto yielded = [&](int region, std::size_t i) {
      return k_[k_.terminator(k_[branch_].regions[static_cast<std::size_t>(region)])].operands[i];
    };
    for (std::size_t i = 0; i < results.size(); ++i)
      k_.replace_all_uses(results[i], b.select(condition_, yielded(0, i), yielded(1, i)));
  }

  /// Completes a branch: its values that other ops use are 0 if it is not taken.
  void finish(OpId branch) {
    const RegionId then = k_[branch].regions[0], otherwise = k_[branch].regions[1];
    Builder in_then(k_, then), in_otherwise(k_, otherwise);
    std::vector<Value> values, zeros;
    for (OpId op : k_.ops(then))
      for (Value v : k_[op].results)
        if (is_used_outside(v, then)) values.push_back(v);
    for (Value v : values) {
      zeros.push_back(in_otherwise.zero(k_.type(v)));
      const Value result = k_.add_result(branch, k_.type(v));
      replace_outside(v, result, then);
    }
    in_then.yield(values);
    in_otherwise.yield(zeros);
  }

  bool is_used_outside(Value v, RegionId region) const {
    return any_op(k_, k_.body(), [&](OpId op) {
      return std::ranges::find(k_[op].operands, v) != k_[op].operands.end() &&
             !is_inside(k_, op, region);
    });
  }
  void replace_outside(Value from, Value to, RegionId region) {
    walk(k_, k_.body(), [&](OpId op) {
      if (!is_inside(k_, op, region)) std::ranges::replace(k_[op].operands, from, to);
    });
  }

  Kernel& k_;
  OpId branch_;
  Value condition_;
  std::vector<OpId> ops_;                ///< of the branch, in order
  std::unordered_set<OpId> out_;         ///< those that leave it
  std::unordered_map<OpId, int> group_;  ///< branch that the remaining ops move to
  std::vector<OpId> made_;               ///< these branches
};

}  // namespace

bool predicate_mainloops(Kernel& kernel, PassContext& context) {
  bool changed = false;
  for (OpId op : kernel.ops(kernel.body())) {
    if (kernel[op].opcode != Opcode::If) continue;
    BranchOfMainloops branch(kernel, op);
    if (!branch.applies()) continue;
    context.remark(Remark::Kind::Applied, kernel[op].loc, "mainloop moved out of its branch");
    branch.run();
    changed = true;
  }
  return changed;
}

}  // namespace tegula::ir
