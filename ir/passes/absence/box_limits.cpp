#include "ir/passes/absence/box_limits.h"

#include <algorithm>

#include "ir/analysis/index_facts.h"
#include "ir/made_view.h"
#include "ir/passes/absence/cut_pieces.h"

namespace tegula::ir {
namespace {

/// Returns the extent rounded up to a multiple of every access width, so that it does not narrow
/// the accesses.
std::int64_t beyond(std::int64_t extent) { return (extent + 63) / 64 * 64; }

}  // namespace

BoxAccess BoxLimits::with_extents(OpId box) {
  Builder b(k_, box);
  BoxAccess a = access_of(k_, k_[box]);
  for (std::size_t v = 0; v < a.axes.size(); ++v)
    a.axes[v].limit =
        extent_of(b, a.view, static_cast<int>(v), Type::scalar(k_.type(a.axes[v].offset).dtype()));
  return a;
}

bool BoxLimits::append(OpId op, BoxAccess a, std::span<const PresenceBound> bounds) {
  Builder b(k_, op);
  bool narrowed = false;
  for (const PresenceBound& bound : bounds) {
    // A box that is absent as a whole is not stored: the limit of its first dimension becomes 0.
    const int dim = bound.is_whole() ? 0 : bound.dim;
    AccessAxis& axis = a.along.empty() ? a.axes[0] : a.along_dim(dim);
    if (adds_nothing(op, bound, axis.offset, static_cast<int>(&axis - a.axes.data()))) continue;
    axis.limit = b.op(Opcode::Min, {axis.limit, limit_in_view(b, bound, axis)});
    axis.in_bounds = false;
    narrowed = true;
  }
  if (narrowed) set_access(k_[op], a);
  return narrowed;
}

bool BoxLimits::end_load(OpId op, Value v) {
  OpId load = k_[v].def;
  if (!load || k_[load].opcode != Opcode::Crop) return false;
  const Uses uses(k_);
  const auto has_one_use = [&](OpId def) { return uses.count(k_[def].results[0]) == 1; };
  while (load && k_[load].opcode == Opcode::Crop && has_one_use(load))
    load = k_[k_[load].operands[0]].def;
  if (!load || k_[load].opcode != Opcode::LoadView || !has_one_use(load)) return false;
  const bool is_operand = k_[op].opcode == Opcode::Dot || is_operand_of_dots(uses, op);
  if (!is_operand || has_cut_pieces(k_, load) || access_of(k_, k_[load]).gathered_dim() >= 0)
    return false;
  const Value tile = k_[load].results[0];
  std::vector<PresenceBound> cropped(absence_.of(v).begin(), absence_.of(v).end());
  std::erase_if(cropped, [&](const PresenceBound& bound) {
    return std::ranges::find(absence_.of(tile), bound) != absence_.of(tile).end();
  });
  if (!absence_.is_zero_filled(tile) || !can_end(load, cropped) || !may_move(load, op))
    return false;
  k_.unlink(load);
  k_.insert_before(op, load);
  return append(load, with_extents(load), cropped);
}

bool BoxLimits::is_operand_of_dots(const Uses& uses, OpId op) const {
  return std::ranges::all_of(uses.of(k_[op].results[0]), [&](const Uses::Use& use) {
    return k_[use.op].opcode == Opcode::Permute ? is_operand_of_dots(uses, use.op)
                                                : k_[use.op].opcode == Opcode::Dot;
  });
}

bool BoxLimits::can_end(OpId load, std::span<const PresenceBound> bounds) const {
  const BoxAccess a = access_of(k_, k_[load]);
  std::int64_t ended = -1;
  for (const PresenceBound& bound : bounds) {
    if (bound.is_whole() || bound.is_elements() || needs_mask(load, a, bound)) return false;
    const std::int64_t v = a.along[static_cast<std::size_t>(bound.dim)];
    const Value offset = a.along_dim(bound.dim).offset;
    if (adds_nothing(load, bound, offset, static_cast<int>(v))) continue;
    const ViewFacts& facts = k_.type(a.view).view_facts();
    if ((ended >= 0 && v != ended) || facts.strides[static_cast<std::size_t>(v)] == 1 ||
        !absence_.facts().is_non_negative(offset, load))
      return false;
    ended = v;
  }
  return ended >= 0;
}

bool BoxLimits::may_move(OpId load, OpId op) const {
  if (k_[load].parent != k_[op].parent) return false;
  for (OpId between = k_[load].next; between != op; between = k_[between].next)
    if (const OpInfo& row = info(k_[between].opcode);
        row.has(kWrites) || row.has(kEffects) || !k_[between].regions.empty())
      return false;
  return true;
}

bool BoxLimits::adds_nothing(OpId op, const PresenceBound& bound, Value offset,
                             int view_dim) const {
  if (bound.is_whole() || bound.mask || !begins_at(k_, bound, offset)) return false;
  const Value view = accessed_view(k_[op]);
  return is_extent_of(k_, bound.limit, view, view_dim) ||
         absence_.facts().is_extent_at_most(view, view_dim, bound.limit, op);
}

bool BoxLimits::needs_mask(OpId op, const BoxAccess& a, const PresenceBound& bound) const {
  if (bound.is_whole()) return false;
  if (bound.mask) return true;
  return !bound.is_upper && !begins_at(k_, bound, a.along_dim(bound.dim).offset) &&
         !absence_.facts().is_non_negative(bound.offset, op);
}

Value BoxLimits::limit_in_view(Builder& b, const PresenceBound& bound, const AccessAxis& axis) {
  const Type index = k_.type(axis.offset);
  if (bound.is_whole()) {
    // "No limit" is a multiple of every access width, so that it does not narrow the accesses.
    constexpr std::int64_t kNoLimit = INT32_MAX - 63;
    Value inside = bound.mask;
    if (!inside) {
      const Value first = absence_.plain(b, bound.offset);
      const Value from = b.cmp("ge", first, b.constant(k_.type(first), std::int64_t{0}));
      inside = b.op(Opcode::And, {from, b.cmp("lt", first, bound.limit)});
    }
    const Value none = b.constant(index, std::int64_t{0});
    return b.select(inside, b.constant(index, kNoLimit), none);
  }
  if (is_same(k_, bound.offset, axis.offset)) return bound.limit;
  const Value first = absence_.plain(b, bound.offset);
  // A box that starts after its view's end has a negative rest; the comparison with bounds is
  // unsigned.
  Value rest = b.sub(bound.limit, first);
  const Type wide = k_.type(rest);
  const bool is_converted = wide != index;
  // "No limit" plus an offset would overflow. Elements after the tile do not matter, nor how far
  // the tile is beyond the limit.
  if (bound.is_guarded || is_converted)
    rest = b.op(Opcode::Min, {rest, b.constant(wide, beyond(axis.extent))});
  if (is_converted) {
    rest = b.op(Opcode::Max, {rest, b.constant(wide, std::int64_t{0})});
    rest = b.cast(rest, index.dtype());
  }
  const Value none = b.constant(index, std::int64_t{0});
  return b.op(Opcode::Max, {b.add(rest, axis.offset), none});
}

}  // namespace tegula::ir
