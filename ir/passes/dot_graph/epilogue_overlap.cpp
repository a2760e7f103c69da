// Before:  for tiles {
//            p = f(q K[0]); for k = 1.. { q K[k] next to p V[k-1]; .. }
//            o = p V[last], o; store h(o)
//          }
// After:   for tiles, p, o of the tile before {
//            q K[0] next to p V[last], o; p' = f(..); if there is a tile before { store h(o) }
//            for k = 1.. { .. }
//          }
//          if there was a tile { o = p V[last], o; store h(o) }
// so that the last product of a tile overlaps the first product of the next tile, whose first
// scores are ready when the previous tile is stored.
#include "ir/passes/dot_graph/epilogue_overlap.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/facts.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/layout/linear_layout.h"
#include "ir/schedule/graph.h"

namespace tegula::ir {
namespace {

/// Maximum number of registers of a value that is kept from the previous tile, in addition to the
/// accumulator.
constexpr std::int64_t kMaxRegisters = 8;

/// Returns true if the op may be delayed. MMAs, loops and synchronization keep their order.
bool may_come_later(const Kernel& k, OpId op) {
  return !any_op(k, op, [&](OpId o) {
    using enum Opcode;
    return k[o].is(For, While, Dot, ArriveAndTestLast, WaitUntil, AtomicLoad, AtomicStore,
                   GridDependencyWait) ||
           is_release(k[o]) || is_acquire(k[o]);
  });
}

}  // namespace

EpilogueOverlap::EpilogueOverlap(MmaLoop& l)
    : l_(l), k_(l.k), loop_(l.loop), tiles_(l.tile_loop()) {}

std::optional<EpilogueOverlap> EpilogueOverlap::of(MmaLoop& l) {
  if (!l.tile_loop()) return std::nullopt;
  const auto& bounds = l.k[l.loop].operands;
  EpilogueOverlap found(l);
  if (!Facts(l.k).is_less(bounds[0], bounds[1], l.loop) || !found.collect()) return std::nullopt;
  return found;
}

bool EpilogueOverlap::collect() {
  const auto& results = k_[loop_].results;
  std::unordered_set<Value> late(results.begin(), results.end());
  const OpId yield = k_.terminator(k_[loop_].parent);
  for (OpId op = k_[loop_].next; op; op = k_[op].next) {
    const auto used = used_by(k_, op);
    if (std::ranges::none_of(used, [&](Value v) { return late.contains(v); })) continue;
    if (op == yield || !may_come_later(k_, op)) return false;
    rest_.push_back(op);
    late.insert(k_[op].results.begin(), k_[op].results.end());
  }
  if (conflicts_with_others()) return false;
  for (OpId op : rest_)
    for (Value v : used_by(k_, op))
      if (!late.contains(v)) add_outside(v);
  return !rest_.empty() && std::ranges::all_of(from_tile_, [&](Value v) {
    const Type t = k_.type(v);
    return t.is_scalar() || (t.is_tile() && t.layout()->registers() <= kMaxRegisters);
  });
}

/// Returns true if the delayed ops may access the same memory as others: the pass memory_order
/// treats an iteration of the tile loop as a program.
bool EpilogueOverlap::conflicts_with_others() const {
  MemoryHazards hazards(k_);
  std::vector<OpId> later, others;
  for (OpId op : k_.ops(k_[loop_].parent)) {
    auto& list = std::ranges::count(rest_, op) > 0 ? later : others;
    any_op(k_, op, [&](OpId o) {
      list.push_back(o);
      return false;
    });
  }
  return std::ranges::any_of(later, [&](OpId x) {
    return std::ranges::any_of(others, [&](OpId y) { return !hazards.may_pass(x, y); });
  });
}

/// Returns true if the value is the same in every tile.
bool EpilogueOverlap::is_invariant(Value v) const {
  if (!is_of_tile(v)) return true;
  const OpId def = k_[v].def;
  return def && is_movable(k_[def]) &&
         std::ranges::all_of(k_[def].operands, [&](Value o) { return is_invariant(o); });
}

/// Adds a value that the delayed ops use. Tiles are recomputed from the scalars that they depend
/// on.
void EpilogueOverlap::add_outside(Value v) {
  if (is_invariant(v) || std::ranges::count(from_tile_, v) > 0) return;
  const OpId def = k_[v].def;
  if (!k_.type(v).is_tile() || !def || !is_movable(k_[def])) {
    from_tile_.push_back(v);
    return;
  }
  for (Value operand : k_[def].operands) add_outside(operand);
}

Value EpilogueOverlap::carried(Type type) {
  return add_carry(k_, tiles_, l_.before(tiles_).zero(type));
}

Value EpilogueOverlap::after_tiles(Value arg) const {
  const std::uint32_t ivs = k_[tiles_].opcode == Opcode::For ? 1 : 0;
  return k_[tiles_].results[k_[arg].position - ivs];
}

void EpilogueOverlap::enter(std::span<const Type> state, OperandPipeline& late) {
  at_ = late.begin;
  exists_ = carried(Type::scalar(DType::i1));
  for (Type type : state) state_.push_back(carried(type));
  for (Value v : from_tile_) before_[v] = carried(k_.type(v));
  Builder head = l_.before(loop_);
  const RingPosition next = late.ring.next(head, at_);
  late.begin = {head.select(exists_, next.slot, at_.slot),
                head.select(exists_, next.phase, at_.phase)};
}

void EpilogueOverlap::write(Builder& b, std::span<const Value> results, ValueMap map) const {
  std::unordered_set<Value> made;
  for (std::size_t i = 0; i < results.size(); ++i) map[k_[loop_].results[i]] = results[i];
  for (OpId op : rest_) made.insert(k_[op].results.begin(), k_[op].results.end());
  for (OpId op : rest_) {
    for (Value v : used_by(k_, op))
      if (!made.contains(v))
        clone_computation(b, v, map, [&](Value o) { return is_of_tile(o) ? Value() : o; });
    clone_op(b, op, map);
  }
}

void EpilogueOverlap::finish_last_tile(Builder& b, std::span<const Value> results) const {
  const OpId branch = b.make_if(exists_, {});
  Builder inner(k_, k_[branch].regions[0]);
  inner.loc = b.loc;
  write(inner, results, before_);
}

OpId EpilogueOverlap::leave(std::vector<Value> state) {
  Builder tail = l_.before(k_.terminator(k_[loop_].parent));
  yields_ = std::move(state);
  yields_.insert(yields_.begin(), tail.flag(true));
  yields_.insert(yields_.end(), from_tile_.begin(), from_tile_.end());
  Builder b = Builder::after(k_, tiles_);
  b.loc = k_[loop_].loc;
  const OpId branch = b.make_if(after_tiles(exists_), {});
  Builder inner(k_, k_[branch].regions[0]);
  inner.loc = b.loc;
  return inner.effect(Opcode::Yield, {});
}

std::vector<Value> EpilogueOverlap::very_last_state() const {
  std::vector<Value> state;
  for (Value arg : state_) state.push_back(after_tiles(arg));
  return state;
}

void EpilogueOverlap::finish_very_last_tile(Builder& b, std::span<const Value> results) {
  ValueMap map;
  for (const auto& [of_tile, arg] : before_) map[of_tile] = after_tiles(arg);
  write(b, results, std::move(map));
  for (std::size_t i = rest_.size(); i-- > 0;) k_.erase(rest_[i]);
}

void EpilogueOverlap::close() {
  const OpId yield = k_.terminator(k_[tiles_].regions.back());
  k_[yield].operands.insert(k_[yield].operands.end(), yields_.begin(), yields_.end());
}

}  // namespace tegula::ir
