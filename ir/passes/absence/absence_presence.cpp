// Presence carried by a loop. If the initial value of a variable lacks elements that later values
// have, no bound describes what the variable lacks, so the loop also carries an i1 per element:
//
//   loop start, next                 ->  loop (any value) start, (present start),
//                                             (any value) next, (present next)
//
// Inside and after the loop, an element of the variable is present where its i1 is true.
#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/index_facts.h"
#include "ir/loop.h"
#include "ir/passes/absence/absence.h"
#include "support/errors.h"

namespace tegula::ir {

bool is_nowhere(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].opcode != Opcode::Crop) return false;
  const auto is_constant_zero = [&](Value x) {
    const OpId of = k[x].def;
    return of && k[of].opcode == Opcode::Const && is_zero(k, x);
  };
  return is_constant_zero(k[def].operands[1]) && is_constant_zero(k[def].operands[2]);
}

Value side_that_is_somewhere(Kernel& k, OpId select) {
  const Value side = k[select].operands[1];
  const Type type = k.type(k[select].results[0]);
  return k.type(side) == type ? side : Builder(k, select).op(Opcode::Splat, {side}, type);
}

/// Returns the end of the crop from which the limit of the bound was made: x if the limit is max(x,
/// 0), else the limit itself, or null without a limit.
Value Absence::end_of(const PresenceBound& bound) const {
  if (!bound.limit) return {};
  const OpId def = k_[bound.limit].def;
  const bool is_end = def && k_[def].opcode == Opcode::Max && is_zero(k_, k_[def].operands[1]);
  return is_end ? k_[def].operands[0] : bound.limit;
}

/// Returns true if the limit has the form of a crop's: max(x, 0) or the extent of a view.
bool Absence::is_limit_of_crop(const PresenceBound& bound) const {
  const OpId def = k_[bound.limit].def;
  return end_of(bound) != bound.limit || (def && k_[def].opcode == Opcode::ViewDim);
}

/// Returns the equivalent bound in the list, or null.
const PresenceBound* Absence::find_bound(std::span<const PresenceBound> list,
                                         const PresenceBound& bound) const {
  const auto are_equal = [&](Value a, Value b) { return a == b || (a && b && is_same(k_, a, b)); };
  const auto found = std::ranges::find_if(list, [&](const PresenceBound& other) {
    PresenceBound renamed = other;
    if (!are_equal(other.offset, bound.offset) || !are_equal(other.limit, bound.limit) ||
        !are_equal(other.mask, bound.mask))
      return false;
    renamed.offset = bound.offset, renamed.limit = bound.limit, renamed.mask = bound.mask;
    return renamed == bound;
  });
  return found == list.end() ? nullptr : &*found;
}

bool Absence::has_bound(std::span<const PresenceBound> list, const PresenceBound& bound) const {
  return find_bound(list, bound) != nullptr;
}

/// Returns the value with arbitrary values in place of absent elements.
Value Absence::any_value(Builder& b, Value v) const {
  const Type type = k_.type(v);
  const Value zero = b.zero(Type::of(type.elem()));
  return b.op(Opcode::FillAbsent, {v, zero}, type, {{AttrName::kind, "any"}});
}

/// Returns the tile with elements absent where the condition, a tile or a scalar, is false.
Value Absence::only_where(Builder& b, Value condition, Value v) const {
  const Value zero = b.i32(0);
  const Value nowhere =
      b.op(Opcode::Crop, {v, zero, zero}, k_.type(v), {{AttrName::axis, std::int64_t{0}}});
  return b.select(condition, v, nowhere);
}

void Absence::refuse(OpId loop, Value start, Value next) const {
  const auto place = [&](Value v) { return k_[v].def ? k_[k_[v].def].loc : k_[loop].loc; };
  fail(ErrorId::absent_carry, k_[loop].loc,
       {{place(start), "the first value"}, {place(next), "the next value"}}, k_.type(start).str());
}

/// Replaces all uses of `v` by `v` restricted to `present` and cropped by `cut`.
void Absence::replace_by_present(Builder& b, Value v, Value present,
                                 std::span<const PresenceBound> cut) {
  const Value where_present = only_where(b, present, v);
  const OpId choice = k_[where_present].def, nowhere = k_[k_[choice].operands[2]].def;
  const Value all = cropped(b, where_present, cut);
  k_.replace_all_uses(v, all);
  // Restore the uses in the replacement itself.
  k_[nowhere].operands[0] = v;
  k_[choice].operands[1] = v;
}

/// Makes the loop carry the presence of each element of carry `i`. All next values lack the
/// elements excluded by `always`. `keeps`: elements that the next value lacks keep their old value.
void Absence::add_presence(OpId loop, std::size_t i, const List& always, bool keeps) {
  List cut, masks;
  for (const PresenceBound& bound : always) (bound.is_interval() ? cut : masks).push_back(bound);
  const OpId yield = k_.terminator(k_[loop].regions.back());
  const Value start = loop_inits(k_[loop])[i];
  const Type type = k_.type(start), flag = type.with_elem({DType::i1, false});
  if (!type.is_tile()) refuse(loop, start, k_[yield].operands[i]);
  const auto present = [&](Builder& b, Value v) {
    const Value zero = b.zero(Type::of(type.elem()));
    return b.op(Opcode::FillAbsent, {v, zero}, flag, {{AttrName::kind, "present"}});
  };
  Builder b(k_, loop);
  const Value begins = any_value(b, start), all = mask_of_all(b, masks, type);
  Value is_present = present(b, start);
  if (all) is_present = b.op(Opcode::And, {is_present, all});
  loop_inits(k_[loop])[i] = begins;
  const Value was_present = add_carry(k_, loop, is_present), old = body_carries(k_, loop)[i];
  const std::vector<RegionId> regions(k_[loop].regions.begin(), k_[loop].regions.end());
  for (RegionId r : regions) {
    b.before(k_[r].first);
    replace_by_present(b, loop_carries(k_, r)[i], loop_carries(k_, r).back(), cut);
  }
  b.before(yield);
  const Value next = k_[yield].operands[i], has = present(b, next);
  const Value plain = any_value(b, next);
  const Value yielded = keeps ? b.select(has, plain, old) : plain;
  const Value flags = keeps ? b.op(Opcode::Or, {has, was_present}) : has;
  k_[yield].operands[i] = yielded;
  k_[yield].operands.push_back(flags);

  Builder after = Builder::after(k_, loop);
  replace_by_present(after, k_[loop].results[i], k_[loop].results.back(), cut);
  ++rewritten_;
}

}  // namespace tegula::ir
