// Before:  for tiles {
//            p = f(q K[0]); for k = 1.. { q K[k] next to p V[k-1]; .. }
//            o = p V[last], o; store h(o)
//          }
// After:   for tiles, p, o of the previous tile {
//            q K[0] next to p V[last], o; p' = f(..); if there is a previous tile { store h(o) }
//            for k = 1.. { .. }
//          }
//          if there was a tile { o = p V[last], o; store h(o) }
// so that no tile ends with a product that nothing runs beside, and the next one's first scores are
// there when its predecessor is stored.
#include "ir/passes/mma_loop/epilogue_overlap.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/layout/linear_layout.h"

namespace tegula::ir {
namespace {

/// Registers that a thread may hold of the previous tile, besides its accumulator.
constexpr std::int64_t kMaxRegisters = 8;

/// Operands of the op and of all nested ops.
template <class Visit>
void for_operands(const Kernel& k, OpId op, const Visit& visit) {
  for (Value v : k[op].operands) visit(v);
  for (RegionId r : k[op].regions)
    walk(k, r, [&](OpId o) {
      for (Value v : k[o].operands) visit(v);
    });
}

/// MMAs and loops wait in an order of their own.
bool may_come_later(const Kernel& k, OpId op) {
  bool may = true;
  const auto look = [&](OpId o) {
    using enum Opcode;
    may = may &&
          !k[o].is(For, While, Dot, ArriveAndTestLast, WaitUntil, AtomicLoad, AtomicStore,
                   GridDependencyWait) &&
          !is_release(k[o]) && !is_acquire(k[o]);
  };
  look(op);
  for (RegionId r : k[op].regions) walk(k, r, look);
  return may;
}

}  // namespace

EpilogueOverlap::EpilogueOverlap(MmaLoop& l, OpId second, std::size_t sum)
    : l_(l),
      k_(l.k),
      second_(second),
      tiles_(l.tile_loop()),
      c_(sum),
      own_results_(l.k[l.loop].results.size()) {}

std::optional<EpilogueOverlap> EpilogueOverlap::of(MmaLoop& l, OpId second, std::size_t sum) {
  if (!l.tile_loop() || !l.overlaps_tiles()) return std::nullopt;
  const auto& bounds = l.k[l.loop].operands;
  EpilogueOverlap found(l, second, sum);
  if (!IndexFacts(l.k).is_less(bounds[0], bounds[1]) || !found.collect()) return std::nullopt;
  return found;
}

bool EpilogueOverlap::collect() {
  const auto& results = k_[l_.loop].results;
  std::unordered_set<Value> late(results.begin(), results.end());
  const OpId yield = k_.terminator(k_[l_.loop].parent);
  for (OpId op = k_[l_.loop].next; op; op = k_[op].next) {
    bool needs = false;
    for_operands(k_, op, [&](Value v) { needs = needs || late.contains(v); });
    if (!needs) continue;
    if (op == yield || !may_come_later(k_, op)) return false;
    rest_.push_back(op);
    late.insert(k_[op].results.begin(), k_[op].results.end());
  }
  if (meets_others()) return false;
  for (OpId op : rest_)
    for_operands(k_, op, [&](Value v) {
      if (!late.contains(v)) add_outside(v);
    });
  return !rest_.empty() && std::ranges::all_of(from_tile_, [&](Value v) {
    const Type t = k_.type(v);
    return t.is_scalar() || (t.is_tile() && t.layout()->registers() <= kMaxRegisters);
  });
}

/// Whether the delayed ops access the same memory as others: the pass memory_order treats an
/// iteration of the tile loop as a program.
bool EpilogueOverlap::meets_others() const {
  MemoryHazards hazards(k_);
  std::vector<OpId> later, others;
  for (OpId op : k_.ops(k_[l_.loop].parent)) {
    const bool is_later = std::ranges::count(rest_, op) > 0;
    const auto look = [&](OpId o) { (is_later ? later : others).push_back(o); };
    look(op);
    for (RegionId r : k_[op].regions) walk(k_, r, look);
  }
  return std::ranges::any_of(later, [&](OpId x) {
    return std::ranges::any_of(others, [&](OpId y) { return !hazards.may_pass(x, y); });
  });
}

bool EpilogueOverlap::is_of_tile(Value v) const {
  const RegionId body = k_[l_.loop].parent;
  const OpId def = k_[v].def;
  return def ? k_[def].parent == body : k_[v].region == body;
}

/// Whether the value is the same in every tile.
bool EpilogueOverlap::is_invariant(Value v) const {
  if (!is_of_tile(v)) return true;
  const OpId def = k_[v].def;
  return def && is_movable(k_[def]) &&
         std::ranges::all_of(k_[def].operands, [&](Value o) { return is_invariant(o); });
}

/// Tiles are recomputed from the scalars that they come from.
void EpilogueOverlap::add_outside(Value v) {
  if (is_invariant(v) || std::ranges::count(from_tile_, v) > 0) return;
  const OpId def = k_[v].def;
  if (!k_.type(v).is_tile() || !def || !is_movable(k_[def])) {
    from_tile_.push_back(v);
    return;
  }
  for (Value operand : k_[def].operands) add_outside(operand);
}

Value EpilogueOverlap::carried(Value init) { return l_.add_carry(tiles_, init); }

Value EpilogueOverlap::behind_tiles(Value arg) const {
  const std::uint32_t ivs = k_[tiles_].opcode == Opcode::For ? 1 : 0;
  return k_[tiles_].results[k_[arg].position - ivs];
}

void EpilogueOverlap::enter() {
  Builder b = l_.before(tiles_);
  OperandPipeline& values = l_.pipelines[1];
  at_ = values.begin;
  exists_ = carried(b.flag(false));
  adds_ = carried(b.flag(false));
  mma1_a_ = carried(b.zero(k_.type(k_[second_].operands[0])));
  for (std::size_t i = 0; i < k_[l_.loop].results.size(); ++i) {
    const Value result = k_[l_.loop].results[i];
    const Value arg = carried(b.zero(k_.type(result)));
    if (i == c_) sum_ = arg;
    before_[result] = arg;
  }
  for (Value v : from_tile_) before_[v] = carried(b.zero(k_.type(v)));
  Builder head = l_.before(l_.loop);
  const RingPosition next = values.ring.next(head, at_);
  values.begin = {head.select(exists_, next.slot, at_.slot),
                  head.select(exists_, next.phase, at_.phase)};
}

/// The value itself, its entry in the map, or a copy of its computation.
Value EpilogueOverlap::again(Builder& b, Value v, ValueMap& map) const {
  if (map.contains(v) || !is_of_tile(v)) return mapped(map, v);
  const OpId def = k_[v].def;
  const std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
  for (Value operand : operands) again(b, operand, map);
  clone_op(b, def, map);
  return map.at(v);
}

void EpilogueOverlap::write(Builder& b, ValueMap map) const {
  std::unordered_set<Value> made;
  for (OpId op : rest_) made.insert(k_[op].results.begin(), k_[op].results.end());
  for (OpId op : rest_) {
    std::vector<Value> needed;
    for_operands(k_, op, [&](Value v) {
      if (!made.contains(v)) needed.push_back(v);
    });
    for (Value v : needed) again(b, v, map);
    clone_op(b, op, map);
  }
  b.yield({});
}

void EpilogueOverlap::finish_previous_tile(Builder& b, Value accumulator) {
  const OpId branch = b.make_if(exists_, {});
  Builder there(k_, k_[branch].regions[0]), none(k_, k_[branch].regions[1]);
  there.loc = none.loc = b.loc;
  ValueMap map = before_;
  map[k_[l_.loop].results[c_]] = accumulator;
  write(there, std::move(map));
  none.yield({});
}

void EpilogueOverlap::leave(Value mma1_a, Value adds) {
  Builder tail = l_.before(k_.terminator(k_[l_.loop].parent));
  yields_ = {tail.flag(true), adds, mma1_a};
  for (std::size_t i = 0; i < own_results_; ++i) yields_.push_back(k_[l_.loop].results[i]);
  yields_.insert(yields_.end(), from_tile_.begin(), from_tile_.end());
  Builder b = Builder::behind(k_, tiles_);
  b.loc = k_[second_].loc;
  const OpId branch = b.make_if(behind_tiles(exists_), {});
  Builder there(k_, k_[branch].regions[0]), none(k_, k_[branch].regions[1]);
  there.loc = none.loc = b.loc;
  const RingPosition at{behind_tiles(at_.slot), behind_tiles(at_.phase)};
  l_.pipelines[1].ring.wait(there, at);
  ValueMap map;
  for (const auto& [of_tile, arg] : before_) map[of_tile] = behind_tiles(arg);
  const Value last = behind_tiles(mma1_a_),
              pending = l_.issue(there, second_, behind_tiles(sum_), last, behind_tiles(adds_), at);
  const Value sum = k_[l_.loop].results[c_];
  map[sum] = MmaLoop::wait(there, pending, k_.type(sum), 0, last);
  write(there, std::move(map));
  none.yield({});
  for (std::size_t i = rest_.size(); i-- > 0;) k_.erase(rest_[i]);
}

void EpilogueOverlap::close() {
  const OpId yield = k_.terminator(k_[l_.loop].parent);
  k_[yield].operands.insert(k_[yield].operands.end(), yields_.begin(), yields_.end());
}

}  // namespace tegula::ir
