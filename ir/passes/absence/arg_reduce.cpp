#include "ir/passes/absence/arg_reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ir/lines.h"
#include "ir/reduce_kind.h"

namespace tegula::ir {
namespace {

/// Returns the bounds that exclude elements of a line along `axis`. Other bounds exclude results as
/// well.
std::vector<PresenceBound> bounds_along(const Absence& absence, Value v, std::int64_t axis) {
  std::vector<PresenceBound> along;
  for (const PresenceBound& bound : absence.of(v))
    if (bound.is_whole_along(axis) || bound.dim == axis || bound.is_elements())
      along.push_back(bound);
  return along;
}

/// Returns the index of the first present element, or 0 if there is none.
Value first_present(Builder& b, Type type, int axis, Value present) {
  const std::int64_t extent = type.shape()[static_cast<std::size_t>(axis)];
  const Value end = b.i32(extent),
              places = repeated(b, index_line(b, DType::i32, extent), axis, type.shape());
  const Value first = b.op(Opcode::Reduce, {b.select(present, places, end)},
                           {{AttrName::axis, axis}, {AttrName::kind, "min"}});
  return b.select(b.cmp("lt", first, end), first, b.i32(0));
}

}  // namespace

bool fill_arg_reduce(Kernel& k, Absence& absence, OpId op) {
  const int axis = static_cast<int>(k[op].attrs.i(AttrName::axis));
  const Value v = k[op].operands[0];
  const Type type = k.type(v);
  const std::vector<PresenceBound> bounds = bounds_along(absence, v, axis);
  if (bounds.empty()) return false;
  Builder b(k, op);
  const Value present = absence.mask_of_all(b, bounds, type);
  if (is_float(type.dtype())) {  // NaN never wins
    const Value nan = b.constant(Type::scalar(type.dtype()), std::nan(""));
    k[op].operands[0] = b.select(present, v, nan);
    return true;
  }
  // No integer loses to all others, so the fill value may equal the extreme. Ties go to the
  // smallest index, which is wrong if absent elements precede present ones.
  const Value identity = reduce_kind(k[op].attrs.s(AttrName::kind)).identity(b, type.dtype());
  const Value filled = b.select(present, v, identity);
  const auto ends_line = [&](const PresenceBound& bound) {
    return !bound.mask && !bound.is_elements() &&
           (bound.is_upper || absence.facts().is_non_negative(bound.offset, op));
  };
  if (std::ranges::all_of(bounds, ends_line)) {
    k[op].operands[0] = filled;
    return true;
  }
  const OpId found = b.create(Opcode::ArgReduce, std::array{filled}, k[op].attrs);
  const Value extreme = k[found].results[0];
  const Value place = b.select(b.cmp("eq", extreme, identity),
                               first_present(b, type, axis, present), k[found].results[1]);
  const std::vector<Value> old(k[op].results.begin(), k[op].results.end());
  const std::vector<Value> made{extreme, place};
  absence.rename(old, made);
  for (std::size_t i = 0; i < old.size(); ++i) k.replace_all_uses(old[i], made[i]);
  k.erase(op);
  return true;
}

}  // namespace tegula::ir
