// Absence of sorted tiles: sort moves the absent elements of a line to its end, so the present
// elements of a line of the result come first.
#include <array>

#include "ir/lines.h"
#include "ir/passes/absence/absence.h"

namespace tegula::ir {
namespace {

bool is_along(const PresenceBound& bound, int axis) {
  return bound.is_elements() || bound.dim == axis;
}

}  // namespace

/// Returns the bound of the result if the bounds are on coordinates along the axis: every line has
/// the same present elements.
PresenceBound Absence::sorted_line(Builder& b, OpId id, std::span<const PresenceBound> bounds) {
  const int axis = static_cast<int>(k_[id].attrs.i(AttrName::axis));
  const std::int64_t extent = k_.type(k_[id].operands[0]).shape()[static_cast<std::size_t>(axis)];
  const PresenceBound& one = bounds.front();
  if (bounds.size() == 1 && !one.mask && facts().is_non_negative(one.offset, id)) {
    Value rest = b.sub(one.limit, plain(b, one.offset));
    // "No limit" of a guarded bound would overflow if an offset were added to it.
    if (one.is_guarded) rest = b.op(Opcode::Min, {rest, b.constant(k_.type(rest), extent)});
    const Value zero = b.constant(k_.type(rest), std::int64_t{0});
    return {.dim = axis, .offset = zero, .limit = b.op(Opcode::Max, {rest, zero})};
  }
  const Value inside = line_of_all(b, bounds, extent);
  const Value count = b.op(Opcode::Reduce, {b.cast(inside, DType::i32)},
                           {{AttrName::axis, 0}, {AttrName::kind, "sum"}});
  return {.dim = axis, .offset = b.i32(0), .limit = count};
}

/// Returns the bound of the result if some bounds are on elements: the number of present elements
/// differs from line to line.
PresenceBound Absence::sorted_elements(Builder& b, OpId id, std::span<const PresenceBound> bounds) {
  const int axis = static_cast<int>(k_[id].attrs.i(AttrName::axis));
  const Type type = k_.type(k_[id].operands[0]), sorted = k_.type(k_[id].results[1]);
  const Value present = mask_of_all(b, bounds, type);
  Value count = b.op(Opcode::Reduce, {b.cast(present, DType::i32)},
                     {{AttrName::axis, axis}, {AttrName::kind, "sum"}});
  if (sorted.rank() > 1) {
    count = b.op(Opcode::ExpandDims, {count}, {{AttrName::axis, axis}});
    count = b.op(Opcode::Broadcast, {count}, sorted);
  }
  const std::int64_t kept = sorted.shape()[static_cast<std::size_t>(axis)];
  const Value index = repeated(b, index_line(b, DType::i32, kept), axis, sorted.shape());
  PresenceBound elements{PresenceBound::kElements};
  elements.mask = b.cmp("lt", index, count);
  return elements;
}

void Absence::sort(OpId id) {
  const int axis = static_cast<int>(k_[id].attrs.i(AttrName::axis));
  List kept, along, coordinates;
  for (const PresenceBound& bound : of(k_[id].operands[0])) {
    if (bound.is_whole() || !is_along(bound, axis)) {
      kept.push_back(bound);
      continue;
    }
    along.push_back(bound);
    if (!bound.is_elements()) coordinates.push_back(bound);
  }
  if (!along.empty()) {
    DerivedBounds& made = made_[{id, 0}];
    if (made.from != along) {
      Builder b(k_, id);
      made = {along, {}};
      if (!coordinates.empty()) made.bounds.push_back(sorted_line(b, id, coordinates));
      if (coordinates.size() != along.size()) made.bounds.push_back(sorted_elements(b, id, along));
    }
    merge_bounds(kept, made.bounds);
  }
  for (Value v : std::array{k_[id].results[0], k_[id].results[1]}) set(v, kept);
}

/// Ranks are present where the keys are; counts are always present.
void Absence::key_ranks(OpId id) {
  const List of_keys(of(k_[id].operands[0]).begin(), of(k_[id].operands[0]).end());
  set(k_[id].results[0], of_keys);
  set(k_[id].results[1], {});
}

}  // namespace tegula::ir
