// Absence of what loops carry. A bound that is the same in every step is one of the carry, and of
// what the loop leaves behind. Where what a step's value lacks may change from step to step, the
// carry keeps its element instead:
//
//   next = add old, x                ->  kept = add old, (fill_absent x, 0)
//   next                             ->  kept = select present, (any value) next, (any value) old
//
// cropped by the bounds that do not change.
#include <fmt/format.h>

#include <algorithm>

#include "ir/passes/absence.h"
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

bool is_interval(const Bound& bound) {
  return !bound.mask && !bound.is_upper && !bound.is_of_elements;
}

}  // namespace

/// The first value says of each element whether it is there, and a step's value of others.
void Absence::refuse(OpId loop, Value start, Value next) const {
  const auto place = [&](Value v) { return k_[v].def ? k_[k_[v].def].loc : k_[loop].loc; };
  throw CompileError(Diagnostic{
      "T1102",
      fmt::format("a loop carries {}, whose first value lacks elements one by one, and whose next "
                  "values lack others from step to step",
                  k_.type(start).str()),
      k_[loop].loc,
      {{place(start), "the first value"}, {place(next), "the next value"}},
      "give the first value all elements: fill_absent(first, 0)"});
}

/// The same in every step: computed from nothing that the loop counts, carries or may write.
bool Absence::is_invariant(OpId loop, Value v, int depth) const {
  if (!v || !is_inside_loop(k_, loop, v)) return true;
  const OpId def = k_[v].def;
  if (!def || depth > kMaxDepth || !k_[def].regions.empty()) return false;
  const OpData& d = k_[def];
  // An element that nobody writes.
  const bool is_read = d.opcode == Opcode::LoadView && k_.type(v).is_scalar() &&
                       k_.type(d.operands[0]).view_facts().access == Access::In;
  if (!is_read && !info(d.opcode).has(kPure) && d.opcode != Opcode::Const) return false;
  return std::ranges::all_of(d.operands, [&](Value o) { return is_invariant(loop, o, depth + 1); });
}

void Absence::move_in_front(OpId loop, Value v) {
  if (!v || !is_inside_loop(k_, loop, v)) return;
  const OpId def = k_[v].def;
  const std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
  for (Value o : operands) move_in_front(loop, o);
  k_.unlink(def);
  k_.insert_before(loop, def);
  // Where it is now, nothing is proved of it.
  k_[def].attrs.erase(AttrName::inside);
}

bool Absence::bring_in_front(OpId loop, const Bound& bound) {
  for (Value v : {bound.offset, bound.limit, bound.mask})
    if (!is_invariant(loop, v)) return false;
  for (Value v : {bound.offset, bound.limit, bound.mask}) move_in_front(loop, v);
  return true;
}

/// The value, absent outside of intervals that hold for all steps.
Value Absence::cropped(Builder& b, Value v, std::span<const Bound> bounds) {
  for (const Bound& bound : bounds) {
    Value first = bound.offset, end = bound.limit;
    int axis = bound.dim;
    if (bound.is_whole()) {
      axis = 0;
      first = b.constant(k_.type(bound.offset), std::int64_t{0});
      const Value extent = b.constant(k_.type(first), k_.type(v).shape()[0]);
      end = b.select(scalar_inside(b, bound), extent, first);
    } else if (bound.is_guarded) {
      // Nearer than "no limit", to which no offset can be added.
      const std::int64_t extent = k_.type(v).shape()[static_cast<std::size_t>(axis)];
      const Value far = b.add(first, b.constant(k_.type(first), (extent + 63) / 64 * 64));
      end = b.op(Opcode::Min, {end, far});
    }
    v = b.op(Opcode::Crop, {v, first, end}, k_.type(v), {{AttrName::axis, axis}});
  }
  return v;
}

/// `next` as the sum of the old value and something that lacks all that `next` lacks and is 0
/// there: then the sum is what is kept. None where it is no such sum.
Value Absence::sum_that_keeps(Builder& b, OpId next, Value old, const List& varying) {
  if (!next || k_[next].operands.size() != 2) return {};
  const OpData& d = k_[next];
  using enum Opcode;
  const bool commutes = d.opcode == Add || d.opcode == Or || d.opcode == Xor;
  if (!commutes && d.opcode != Sub) return {};
  const std::size_t at = d.operands[0] == old ? 0 : commutes && d.operands[1] == old ? 1 : 2;
  if (at == 2 || d.operands[1 - at] == old) return {};
  const Value x = d.operands[1 - at];
  const auto missing = of(x);
  List others;
  for (const Bound& bound : missing)
    if (std::ranges::find(varying, bound) == varying.end()) {
      if (bound.mask || bound.is_upper) return {};
      others.push_back(bound);
    }
  const bool lacks_all = std::ranges::all_of(varying, [&](const Bound& bound) {
    return std::ranges::find(missing, bound) != missing.end();
  });
  if (!lacks_all) return {};
  const Type type = k_.type(x);
  const Value zero = is_float(type.dtype()) ? b.constant(Type::of(type.elem()), 0.0)
                                            : b.constant(Type::of(type.elem()), std::int64_t{0});
  Value filled = b.op(FillAbsent, {x, zero}, type);
  if (type.is_tile()) filled = cropped(b, filled, others);
  std::vector<Value> operands(k_[next].operands.begin(), k_[next].operands.end());
  operands[1 - at] = filled;
  return k_[b.create(k_[next].opcode, operands, k_[next].attrs)].results[0];
}

void Absence::keep(OpId loop, std::size_t i, const List& varying, const List& invariant) {
  const OpId yield = k_.terminator(k_[loop].regions.back());
  const std::size_t arg = i + (k_[loop].opcode == Opcode::For ? 1 : 0);
  const Value next = k_[yield].operands[i], old = k_[k_[loop].regions.back()].args[arg];
  Builder b(k_);
  b.before(yield);
  b.loc = k_[next].def ? k_[k_[next].def].loc : k_[loop].loc;
  Value kept = sum_that_keeps(b, k_[next].def, old, varying);
  if (!kept) {
    const Type type = k_.type(next);
    const auto any = [&](Value v) {
      const Type scalar = Type::of(type.elem());
      const Value zero = is_float(scalar.dtype()) && !scalar.is_pointer()
                             ? b.constant(scalar, 0.0)
                             : b.constant(scalar, std::int64_t{0});
      return b.op(Opcode::FillAbsent, {v, zero}, type, {{AttrName::kind, "any"}});
    };
    // One condition for the whole tile, if that is all that varies.
    const bool is_whole = std::ranges::all_of(varying, [](const Bound& x) { return x.is_whole(); });
    const Value present = mask_of_all(b, varying, is_whole ? Type::scalar(type.dtype()) : type);
    const Value now = any(next);
    kept = b.select(present, now, any(old));
    if (type.is_tile()) kept = cropped(b, kept, invariant);
  }
  k_[yield].operands[i] = kept;
  rewrote_ = true;
}

/// Whether the carry's bounds, or what it is in the next step, changed.
bool Absence::carry(OpId loop, std::size_t i, List& carried) {
  const Value next = k_[k_.terminator(k_[loop].regions.back())].operands[i];
  const List found(of(next).begin(), of(next).end());
  List varying, invariant = carried;
  bool changed = false;
  for (const Bound& bound : found) {
    if (std::ranges::find(carried, bound) != carried.end()) continue;
    if (bring_in_front(loop, bound)) {
      invariant.push_back(bound);
      changed = true;
    } else {
      varying.push_back(bound);
    }
  }
  if (varying.empty()) {
    carried = std::move(invariant);
    return changed;
  }
  // Masks and open intervals are no crops: they count as varying.
  const std::size_t first = k_[loop].opcode == Opcode::For ? 3 : 0;
  const Value start = k_[loop].operands[first + i];
  List cut, begins(of(start).begin(), of(start).end());
  for (const Bound& bound : begins)
    if (!is_interval(bound)) refuse(loop, start, next);
  for (const Bound& bound : invariant) (is_interval(bound) ? cut : varying).push_back(bound);
  keep(loop, i, varying, cut);
  carried = std::move(begins);
  const RegionId body = k_[loop].regions.back();
  for (OpId op : k_.ops(body)) this->op(op);
  return true;
}

void Absence::loop(OpId id) {
  const std::size_t first = k_[id].opcode == Opcode::For ? 3 : 0;
  const std::size_t arg0 = k_[id].opcode == Opcode::For ? 1 : 0;
  const std::size_t carries = k_[id].results.size();
  std::vector<List> carried(carries);
  for (std::size_t i = 0; i < carries; ++i)
    carried[i].assign(of(k_[id].operands[first + i]).begin(), of(k_[id].operands[first + i]).end());
  const std::vector<RegionId> regions(k_[id].regions.begin(), k_[id].regions.end());
  for (bool changed = true; changed;) {
    changed = false;
    for (RegionId r : regions)
      for (std::size_t i = 0; i < carries; ++i) set(k_[r].args[arg0 + i], carried[i]);
    for (RegionId r : regions) region(r);
    for (std::size_t i = 0; i < carries; ++i) changed |= carry(id, i, carried[i]);
  }
  for (std::size_t i = 0; i < carries; ++i) set(k_[id].results[i], carried[i]);
}

}  // namespace tegula::ir
