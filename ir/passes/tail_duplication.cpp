// What follows a branch of a step of two products, in both of its sides.
//
// Before:  for .. { .. dot_wait s; s' = if c { mask s } else { s }; p = f(s'); pin; dot_wait o .. }
// After:   for .. { .. dot_wait s; p = if c { f(mask s) } else { f(s) }; pin; dot_wait o .. }
// Assemblers schedule one basic block at a time. As one block a side, what f begins with runs
// beside the masks, or beside what stands in front of the branch. (Tail duplication; Mueller and
// Whalley, 1992.)
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/clone_op.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// It may stand in a branch instead of behind it.
bool may_enter(const OpData& d) {
  const OpInfo& row = info(d.opcode);
  return d.regions.empty() && (is_movable(d) || (row.has(kReads) && !row.has(kWrites)));
}

/// Costs nothing but registers, which a branch would have to hand on.
bool is_shape(const OpData& d) {
  using enum Opcode;
  return d.opcode == ExpandDims || d.opcode == Broadcast || d.opcode == Splat ||
         d.opcode == Permute || d.opcode == Reshape;
}

class TailDuplication {
 public:
  TailDuplication(Kernel& k, OpId branch, OpId end) : k_(k), branch_(branch), end_(end) {}

  /// False where something behind the branch has to stay there, or nothing needs the branch.
  bool run() {
    if (writes(branch_)) return false;
    for (OpId op = k_[branch_].next; op != end_; op = k_[op].next)
      if (!may_enter(k_[op])) return false;
    collect();
    if (tail_.empty()) return false;
    const std::vector<Value> handed_on = handed_on_values();
    std::vector<Type> types;
    for (Value v : handed_on) types.push_back(k_.type(v));
    Builder b(k_);
    b.before(branch_);
    b.loc = k_[branch_].loc;
    const OpId both = b.make_if(k_[branch_].operands[0], types);
    for (std::size_t side = 0; side < 2; ++side)
      fill(k_[branch_].regions[side], k_[both].regions[side], handed_on);
    for (std::size_t i = 0; i < handed_on.size(); ++i)
      k_.replace_all_uses(handed_on[i], k_[both].results[i]);
    std::ranges::for_each(tail_.rbegin(), tail_.rend(), [&](OpId op) { k_.erase(op); });
    k_.erase(branch_);
    return true;
  }

 private:
  /// What stands behind it may not be read in front of it.
  bool writes(OpId branch) const {
    bool found = false;
    for (RegionId r : k_[branch].regions)
      walk(k_, r, [&](OpId op) { found = found || info(k_[op].opcode).has(kWrites); });
    return found;
  }

  bool is_made_by(OpId op, const std::unordered_set<Value>& values) const {
    return std::ranges::any_of(k_[op].operands, [&](Value v) { return values.contains(v); });
  }

  /// The tail is what needs the branch's results, but for shapes that only what follows needs. The
  /// rest goes in front of the branch.
  void collect() {
    std::unordered_set<Value> reached(k_[branch_].results.begin(), k_[branch_].results.end());
    std::vector<OpId> others;
    for (OpId op = k_[branch_].next; op != end_; op = k_[op].next) {
      const bool needs = is_made_by(op, reached);
      (needs ? tail_ : others).push_back(op);
      if (needs) reached.insert(k_[op].results.begin(), k_[op].results.end());
    }
    for (OpId op : others) {
      k_.unlink(op);
      k_.insert_before(branch_, op);
    }
    std::unordered_set<Value> needed;  // by the tail
    std::vector<OpId> kept;
    for (std::size_t i = tail_.size(); i-- > 0;) {
      const OpData& d = k_[tail_[i]];
      if (is_shape(d) && !needed.contains(d.results[0])) continue;
      needed.insert(d.operands.begin(), d.operands.end());
      kept.push_back(tail_[i]);
    }
    tail_.assign(kept.rbegin(), kept.rend());
  }

  /// Of the branch and of the tail, what others need.
  std::vector<Value> handed_on_values() const {
    const std::unordered_set<OpId> tail(tail_.begin(), tail_.end());
    std::unordered_set<Value> elsewhere;
    walk(k_, k_.body(), [&](OpId op) {
      if (!tail.contains(op)) elsewhere.insert(k_[op].operands.begin(), k_[op].operands.end());
    });
    std::vector<Value> values;
    const auto add = [&](OpId op) {
      for (Value v : k_[op].results)
        if (elsewhere.contains(v)) values.push_back(v);
    };
    add(branch_);
    std::ranges::for_each(tail_, add);
    return values;
  }

  /// The side's own ops, then the tail.
  void fill(RegionId from, RegionId to, const std::vector<Value>& handed_on) {
    const OpId yield = k_.terminator(from);
    ValueMap map;
    for (std::size_t i = 0; i < k_[branch_].results.size(); ++i)
      map[k_[branch_].results[i]] = k_[yield].operands[i];
    for (OpId op : k_.ops(from)) {
      if (op == yield) continue;
      k_.unlink(op);
      k_.append(to, op);
    }
    Builder b(k_, to);
    for (OpId op : tail_) clone_op(b, op, map);
    std::vector<Value> yielded;
    for (Value v : handed_on) yielded.push_back(mapped(map, v));
    b.loc = k_[branch_].loc;
    b.yield(yielded);
  }

  Kernel& k_;
  OpId branch_, end_;
  std::vector<OpId> tail_;
};

/// Of a step of two products, or of a tile's first one: the last branch that gives a tile, and
/// where the late product, or that of the tile before, is waited for.
struct Place {
  OpId branch, end;
};
std::optional<Place> place_in(const Kernel& k, OpId loop) {
  Place place;
  bool multiplies = false;
  for (OpId op : k.ops(k[loop].regions.back())) {
    const OpData& d = k[op];
    multiplies = multiplies || d.opcode == Opcode::DotAsync;
    if (!multiplies) continue;
    if (d.opcode == Opcode::If && !d.results.empty() && k.type(d.results[0]).is_tile())
      place.branch = op;
    if (d.opcode == Opcode::Pin) {
      place.end = op;
      break;
    }
  }
  return place.branch && place.end ? std::optional(place) : std::nullopt;
}

}  // namespace

bool tail_duplication(Kernel& kernel, PassContext& context) {
  if (!context.plan || !context.plan->tail_duplication) return false;
  std::vector<Place> places;
  walk(kernel, kernel.body(), [&](OpId op) {
    if (kernel[op].opcode != Opcode::For && kernel[op].opcode != Opcode::While) return;
    if (const auto place = place_in(kernel, op)) places.push_back(*place);
  });
  bool changed = false;
  for (const Place& place : places) {
    const Loc loc = kernel[place.branch].loc;
    if (!TailDuplication(kernel, place.branch, place.end).run()) continue;
    changed = true;
    context.remark(Remark::Kind::Applied, loc, "what follows the branch is in both of its sides");
  }
  return changed;
}

}  // namespace tegula::ir
