// Absence of loop carries. A bound that is the same in every iteration is a bound of the carry and
// of the loop's result. If the elements that the next value lacks may change from iteration to
// iteration, the carry keeps its old elements instead:
//
//   next = add old, x                ->  kept = add old, (fill_absent x, 0)
//   next                             ->  kept = select present, (any value) next, (any value) old
//
// cropped by the invariant bounds. The initial value is cropped by these, too, so that the number
// of iterations does not matter. If the initial value lacks elements that later values have, the
// loop also carries presence (absence_presence.cpp).
#include <algorithm>
#include <iterator>

#include "ir/analysis/invariant_load.h"
#include "ir/loop.h"
#include "ir/passes/absence/absence.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

constexpr int kMaxDepth = 24;

bool is_inside_loop(const Kernel& k, OpId loop, Value v) {
  RegionId r = k[v].def ? k[k[v].def].parent : k[v].region;
  while (r) {
    const OpId owner = k[r].owner;
    if (owner == loop) return true;
    r = owner ? k[owner].parent : RegionId();
  }
  return false;
}

}  // namespace

/// Returns true if the value is the same in every iteration: it does not depend on an induction
/// variable, a carry or memory that the loop may write.
bool Absence::is_invariant(OpId loop, Value v, int depth) const {
  if (!v || !is_inside_loop(k_, loop, v)) return true;
  const OpId def = k_[v].def;
  if (!def || depth > kMaxDepth || !k_[def].regions.empty()) return false;
  const OpData& d = k_[def];
  if (!is_invariant_scalar_load(k_, def) && !info(d.opcode).has(kPure) && d.opcode != Opcode::Const)
    return false;
  return std::ranges::all_of(d.operands, [&](Value o) { return is_invariant(loop, o, depth + 1); });
}

void Absence::move_before(OpId loop, Value v) {
  if (!v || !is_inside_loop(k_, loop, v)) return;
  const OpId def = k_[v].def;
  const std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
  for (Value o : operands) move_before(loop, o);
  k_.unlink(def);
  k_.insert_before(loop, def);
  // Facts proved at the old position may not hold at the new one.
  k_[def].attrs.erase(AttrName::in_bounds);
}

bool Absence::hoist_bound(OpId loop, const PresenceBound& bound) {
  for (Value v : {bound.offset, bound.limit, bound.mask})
    if (!is_invariant(loop, v)) return false;
  for (Value v : {bound.offset, bound.limit, bound.mask}) move_before(loop, v);
  return true;
}

/// Returns the value cropped to intervals that hold for all iterations.
Value Absence::cropped(Builder& b, Value v, std::span<const PresenceBound> bounds) {
  for (const PresenceBound& bound : bounds) {
    const Value first = bound.offset;
    Value end = end_of(bound);
    const int axis = bound.dim;
    if (bound.is_whole()) {
      v = only_where(b, scalar_inside(b, bound), v);
      continue;
    }
    if (bound.is_guarded) {
      // Closer than "no limit", to which no offset can be added without overflow.
      const std::int64_t extent = k_.type(v).shape()[static_cast<std::size_t>(axis)];
      const Value far = b.add(first, b.constant(k_.type(first), (extent + 63) / 64 * 64));
      end = b.op(Opcode::Min, {end, far});
    }
    v = b.op(Opcode::Crop, {v, first, end}, k_.type(v), {{AttrName::axis, axis}});
  }
  return v;
}

/// If `next` adds to the old value an operand that lacks all varying elements, returns the sum with
/// that operand filled with 0, which keeps the old elements. Returns null for other ops.
Value Absence::sum_that_keeps(Builder& b, OpId next, Value old, const List& varying) {
  if (!next || k_[next].operands.size() != 2) return {};
  const OpData& d = k_[next];
  using enum Opcode;
  const bool commutes = d.is(Add, Or, Xor);
  if (!commutes && d.opcode != Sub) return {};
  const std::size_t carried = d.operands[0] == old ? 0 : commutes && d.operands[1] == old ? 1 : 2;
  if (carried == 2 || d.operands[1 - carried] == old) return {};
  const Value x = d.operands[1 - carried];
  const auto missing = of(x);
  List others;
  for (const PresenceBound& bound : missing)
    if (std::ranges::find(varying, bound) == varying.end()) {
      if (bound.mask || bound.is_upper) return {};
      others.push_back(bound);
    }
  const bool lacks_all = std::ranges::all_of(varying, [&](const PresenceBound& bound) {
    return std::ranges::find(missing, bound) != missing.end();
  });
  if (!lacks_all) return {};
  const Type type = k_.type(x);
  Value filled = b.op(FillAbsent, {x, b.zero(Type::of(type.elem()))}, type);
  if (type.is_tile()) filled = cropped(b, filled, others);
  std::vector<Value> operands(k_[next].operands.begin(), k_[next].operands.end());
  operands[1 - carried] = filled;
  return k_[b.create(k_[next].opcode, operands, k_[next].attrs)].results[0];
}

void Absence::keep(OpId loop, std::size_t i, const List& varying, const List& invariant) {
  const OpId yield = k_.terminator(k_[loop].regions.back());
  const Value next = k_[yield].operands[i], old = body_carries(k_, loop)[i];
  Builder b(k_, yield);
  b.loc = k_[next].def ? k_[k_[next].def].loc : k_[loop].loc;
  Value kept = sum_that_keeps(b, k_[next].def, old, varying);
  if (!kept) {
    const Type type = k_.type(next);
    // A scalar condition suffices if all varying bounds are whole.
    const bool is_whole =
        std::ranges::all_of(varying, [](const PresenceBound& x) { return x.is_whole(); });
    const Value present = mask_of_all(b, varying, is_whole ? Type::scalar(type.dtype()) : type);
    const Value now = any_value(b, next);
    kept = b.select(present, now, any_value(b, old));
    if (type.is_tile()) kept = cropped(b, kept, invariant);
  }
  k_[yield].operands[i] = kept;
  ++rewritten_;
}

/// Adds the invariant bounds of the next value to those of the carry. Returns true if it added any.
bool Absence::grow(OpId loop, std::size_t i, List& carried) {
  const Value next = loop_nexts(k_, loop)[i];
  // A scalar cannot be cropped.
  if (!k_.type(next).is_tile()) return false;
  const List found(of(next).begin(), of(next).end());
  bool changed = false;
  for (const PresenceBound& bound : found) {
    if (has_bound(carried, bound) || !hoist_bound(loop, bound)) continue;
    carried.push_back(bound);
    changed = true;
  }
  return changed;
}

std::span<const PresenceBound> Absence::begin_of(OpId loop, std::size_t i) const {
  return of(loop_inits(k_[loop])[i]);
}

/// Returns the bounds of the next value: those that hold in every iteration, computed before the
/// loop, and those of some iterations.
Absence::Lacking Absence::next_lacks(OpId loop, std::size_t i, const List& carried) const {
  Lacking lacking;
  for (const PresenceBound& bound : of(loop_nexts(k_, loop)[i]))
    if (const PresenceBound* const known = find_bound(carried, bound))
      lacking.always.push_back(*known);
    else
      lacking.at_times.push_back(bound);
  return lacking;
}

/// Adds carried presence to a carry whose initial value lacks elements that later values have.
/// Returns true if it did.
bool Absence::begin_apart(OpId loop, std::size_t i, const List& carried) {
  const List begins(begin_of(loop, i).begin(), begin_of(loop, i).end());
  const Lacking next = next_lacks(loop, i, carried);
  if (std::ranges::all_of(begins,
                          [&](const PresenceBound& x) { return has_bound(next.always, x); }))
    return false;
  add_presence(loop, i, next.always, !next.at_times.empty());
  return true;
}

/// Makes a carry keep its old elements if its next value lacks different elements from iteration to
/// iteration. Returns true if it did.
bool Absence::keep_at_times(OpId loop, std::size_t i, const List& carried) {
  Lacking next = next_lacks(loop, i, carried);
  if (next.at_times.empty()) return false;
  // A crop cannot express masks and open intervals, so they are treated as varying.
  List cut;
  for (const PresenceBound& bound : next.always)
    (bound.is_interval() ? cut : next.at_times).push_back(bound);
  const List begins(begin_of(loop, i).begin(), begin_of(loop, i).end());
  if (std::ranges::all_of(begins, [&](const PresenceBound& x) { return has_bound(cut, x); }))
    keep(loop, i, next.at_times, cut);
  else
    add_presence(loop, i, cut, true);
  return true;
}

/// Makes the initial value lack what every later value lacks. Returns true if the loop must be
/// analyzed again.
bool Absence::begin_alike(OpId loop, std::size_t i, const List& carried) {
  const List begins(begin_of(loop, i).begin(), begin_of(loop, i).end()),
      found = next_lacks(loop, i, carried).always;
  List missing;
  std::ranges::copy_if(found, std::back_inserter(missing),
                       [&](const PresenceBound& x) { return !has_bound(begins, x); });
  if (missing.empty() || !k_.type(loop_inits(k_[loop])[i]).is_tile()) return false;
  ++rewritten_;
  const bool are_crops = std::ranges::all_of(missing, [&](const PresenceBound& x) {
    return x.is_interval() && !x.is_whole() && !x.is_guarded && is_limit_of_crop(x);
  });
  if (are_crops) {
    Builder b(k_, loop);
    const Value start = cropped(b, loop_inits(k_[loop])[i], missing);
    loop_inits(k_[loop])[i] = start;
    return false;
  }
  lack_alike(loop, i, found);
  return true;
}

/// Applies the same ops to the initial and the next value, so that both lack the same elements.
void Absence::lack_alike(OpId loop, std::size_t i, const List& found) {
  List cut, masked, whole;
  for (const PresenceBound& bound : found)
    (bound.is_whole() ? whole : bound.is_interval() ? cut : masked).push_back(bound);
  const OpId yield = k_.terminator(k_[loop].regions.back());
  const Type type = k_.type(k_[yield].operands[i]);
  Builder b(k_, loop);
  const Value all = mask_of_all(b, whole, Type::of(type.elem()));
  const Value some = mask_of_all(b, masked, type);
  const auto lacking = [&](Value v) {
    v = cropped(b, any_value(b, v), cut);
    if (some) v = only_where(b, some, v);
    return all ? only_where(b, all, v) : v;
  };
  const OpId before = k_[loop].prev;
  const Value start = lacking(loop_inits(k_[loop])[i]);
  loop_inits(k_[loop])[i] = start;
  // The new ops before the loop are not visited again, unlike those of its body.
  for (OpId made = before ? k_[before].next : k_[k_[loop].parent].first; made != loop;
       made = k_[made].next)
    op(made);
  b.before(yield);
  const Value next = lacking(k_[yield].operands[i]);
  k_[yield].operands[i] = next;
}

void Absence::loop(OpId id) {
  // Each round but the last rewrites a carry, which happens at most twice per carry.
  constexpr int kMaxRounds = 1000;
  const OpId next = k_[id].next;
  for (int round = 0; !follow(id); ++round)
    if (round == kMaxRounds)
      throw InternalError("absence: the absence of a loop carry does not converge");
  // Visit the ops that were added after the loop: the walk over the region skips them.
  for (OpId made = k_[id].next; made != next; made = k_[made].next) op(made);
}

/// Propagates absence through a loop. Returns true if its carries are settled; otherwise ops were
/// added and the loop must be analyzed again.
bool Absence::follow(OpId id) {
  const std::size_t carries = k_[id].results.size();
  std::vector<List> carried(carries);
  for (std::size_t i = 0; i < carries; ++i)
    carried[i].assign(begin_of(id, i).begin(), begin_of(id, i).end());
  const std::vector<RegionId> regions(k_[id].regions.begin(), k_[id].regions.end());
  // A mask computed from the carry's own absence changes in each round, and so is not a bound of
  // all iterations.
  const std::size_t rounds = carries + 4;
  bool changed = true;
  for (std::size_t round = 0; changed; ++round) {
    changed = false;
    for (RegionId r : regions)
      for (std::size_t i = 0; i < carries; ++i) set(loop_carries(k_, r)[i], carried[i]);
    ++open_loops_;
    for (RegionId r : regions) region(r);
    --open_loops_;
    for (std::size_t i = 0; i < carries && round < rounds; ++i) changed |= grow(id, i, carried[i]);
  }
  const auto any = [&](bool (Absence::*rewrites)(OpId, std::size_t, const List&)) {
    for (std::size_t i = 0; i < carries; ++i)
      if ((this->*rewrites)(id, i, carried[i])) return true;
    return false;
  };
  for (std::size_t i = 0; i < carries; ++i) set(k_[id].results[i], carried[i]);
  if (open_loops_ != 0) return true;
  if (defines_carries_ && any(&Absence::begin_apart)) return false;
  // Visit nested loops, now that the absence of their initial values is known.
  const std::size_t before = rewritten_;
  for (RegionId r : regions) region(r);
  if (rewritten_ != before) return false;
  if (any(&Absence::keep_at_times)) return false;
  if (defines_carries_ && any(&Absence::begin_alike)) return false;
  return true;
}

}  // namespace tegula::ir
