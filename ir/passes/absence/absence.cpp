// Forward propagation of absence; loops are iterated until nothing changes.
#include "ir/passes/absence/absence.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/lines.h"
#include "ir/loop.h"
#include "ir/made_view.h"
#include "ir/passes/absence/tile_presence.h"
#include "ir/reshape_groups.h"
#include "support/errors.h"

namespace tegula::ir {

void merge_bounds(std::vector<PresenceBound>& into, std::span<const PresenceBound> more) {
  for (const PresenceBound& bound : more)
    if (std::ranges::find(into, bound) == into.end()) into.push_back(bound);
}

bool begins_at(const Kernel& k, const PresenceBound& bound, Value offset) {
  const OpId def = k[bound.offset].def;
  return is_same(k, bound.offset, offset) ||
         (def && k[def].opcode == Opcode::Cast && is_same(k, k[def].operands[0], offset));
}

Absence::Absence(Kernel& k, bool defines_carries)
    : k_(k), known_(k), defines_carries_(defines_carries) {
  region(k.body());
}

std::span<const PresenceBound> Absence::of(Value v) const {
  const auto it = bounds_.find(v);
  return it == bounds_.end() ? std::span<const PresenceBound>()
                             : std::span<const PresenceBound>(it->second);
}

bool Absence::is_zero_filled(Value v, std::int64_t axis) const {
  const OpId def = k_[v].def;
  if (!def || of(v).empty()) return of(v).empty();
  const OpData& d = k_[def];
  using enum Opcode;
  if (d.opcode == LoadView) return at_offsets(def).empty();
  // A crop along another dimension excludes whole lines.
  if (d.opcode == Crop && axis >= 0 && d.attrs.i(AttrName::axis) != axis)
    return is_zero_filled(d.operands[0], axis);
  if (d.opcode == Permute && axis >= 0)
    axis = d.attrs.ints(AttrName::order)[static_cast<std::size_t>(axis)];
  if (d.opcode == ExpandDims) axis = -1;
  // A cast keeps 0; shape ops move elements only.
  if (d.is(Cast, Permute, ExpandDims, Neg, Abs)) return is_zero_filled(d.operands[0], axis);
  if (d.opcode == Mul && d.operands[0] == d.operands[1]) return is_zero_filled(d.operands[0], axis);
  if (d.opcode == Dot)
    return is_zero(k_, d.operands[2]) && is_zero_filled(d.operands[0]) &&
           is_zero_filled(d.operands[1]);
  return false;
}

std::vector<PresenceBound> Absence::at_offsets(OpId op) const {
  List bounds;
  for (const AccessAxis& axis : access_of(k_, k_[op]).axes)
    if (!axis.is_gathered()) merge_bounds(bounds, of(axis.offset));
  return bounds;
}

std::vector<PresenceBound> Absence::at_indices(OpId op) const {
  const BoxAccess a = access_of(k_, k_[op]);
  List bounds;
  for (const AccessAxis& axis : a.axes) {
    if (!axis.is_gathered()) continue;
    for (PresenceBound bound : of(axis.offset)) {
      // A mask of elements of a one-dimensional index tile is a mask along that dimension.
      if (bound.dim != PresenceBound::kNotSplit) bound.dim = a.gathered_dim();
      merge_bounds(bounds, std::array{bound});
    }
  }
  return bounds;
}

Value Absence::made_mask(Value mask) {
  masks_.insert(mask);
  bounds_.erase(mask);
  return mask;
}

bool Absence::set(Value v, List bounds) {
  if (masks_.contains(v)) return false;
  List& now = bounds_[v];
  if (now == bounds) return false;
  now = std::move(bounds);
  return true;
}

void Absence::region(RegionId r) {
  for (OpId o : k_.ops(r)) op(o);
}

Absence::List Absence::union_of_operands(OpId op) const {
  List all;
  // A scalar's absence makes the whole tile absent.
  for (Value v : k_[op].operands) merge_bounds(all, of(v));
  return all;
}

// ---- shape ops
/// Returns the mask after an op that moves elements, by applying the same op to it.
Value Absence::moved_mask(OpId id, Value mask) {
  Value& moved = moved_[{id, mask}];
  if (moved) return moved;
  Builder b(k_, id);
  AttrList attrs = k_[id].attrs;
  const Type type = k_.type(k_[id].results[0]).with_elem({DType::i1, false});
  const OpId made =
      b.create(k_[id].opcode, std::array{mask}, std::span(&type, 1), std::move(attrs));
  return moved = made_mask(k_[made].results[0]);
}

void Absence::remap(OpId op) {
  List moved;
  const List before(of(k_[op].operands[0]).begin(), of(k_[op].operands[0]).end());
  for (PresenceBound bound : before) {
    if (bound.dim >= 0) bound.dim = dim_after(k_, k_[op], bound.dim);
    if (bound.dim == PresenceBound::kElements) bound.mask = moved_mask(op, bound.mask);
    moved.push_back(bound);
  }
  set(k_[op].results[0], std::move(moved));
}

void Absence::broadcast(OpId id) {
  const auto from = k_.type(k_[id].operands[0]).shape(), to = k_.type(k_[id].results[0]).shape();
  List wide(of(k_[id].operands[0]).begin(), of(k_[id].operands[0]).end());
  for (PresenceBound& bound : wide) {
    if (bound.dim == PresenceBound::kElements) bound.mask = moved_mask(id, bound.mask);
    if (bound.dim < 0) continue;
    const auto d = static_cast<std::size_t>(bound.dim);
    if (from[d] == to[d]) continue;
    if (!bound.mask) {
      bound.is_broadcast = true;
      continue;
    }
    // A mask of one element is broadcast along the dimension.
    Value& moved = moved_[{id, bound.mask}];
    if (!moved) {
      Builder b(k_, id);
      moved =
          b.op(Opcode::Broadcast, {bound.mask}, Type::tile({DType::i1, false}, to.subspan(d, 1)));
    }
    bound.mask = moved;
  }
  set(k_[id].results[0], std::move(wide));
}

/// Returns the bound after a reshape, as a mask. If the dimensions of its group are merged into a
/// single one, the mask is along that dimension.
PresenceBound Absence::reshaped(Builder& b, const PresenceBound& bound,
                                std::span<const std::int64_t> from,
                                std::span<const std::int64_t> to) {
  PresenceBound of_result{PresenceBound::kElements};
  of_result.is_of_elements = bound.is_of_elements;
  const int whole = bound.dim < 0 ? -1 : dim_after_reshape(from, to, bound.dim);
  if (whole < 0) {
    const Value all = mask(b, bound, from);
    of_result.mask = b.op(Opcode::Reshape, {all}, Type::tile({DType::i1, false}, to));
    return of_result;
  }
  // Compute the mask of the group alone, whose dimensions become one.
  const auto groups = reshape_groups(from, to);
  const auto group = std::ranges::find_if(groups, [&](const ReshapeGroup& g) {
    return static_cast<std::size_t>(bound.dim) < g.from_end;
  });
  PresenceBound within = bound;
  within.dim -= static_cast<int>(group->from);
  const Value all = mask(b, within, from.subspan(group->from, group->from_end - group->from));
  of_result.dim = whole;
  of_result.mask =
      b.op(Opcode::Reshape, {all},
           Type::tile({DType::i1, false}, to.subspan(static_cast<std::size_t>(whole), 1)));
  return of_result;
}

/// Splitting or merging moves elements between dimensions. Bounds on dimensions that do not change,
/// and bounds that exclude everything or nothing, stay intervals. Other bounds become masks.
void Absence::reshape(OpId id) {
  const auto from = k_.type(k_[id].operands[0]).shape(), to = k_.type(k_[id].results[0]).shape();
  List moved(of(k_[id].operands[0]).begin(), of(k_[id].operands[0]).end());
  for (PresenceBound& bound : moved) {
    if (bound.dim == PresenceBound::kNotSplit) continue;
    const PresenceBound before = bound;
    const std::int64_t extent =
        bound.dim >= 0 ? from[static_cast<std::size_t>(bound.dim)] : std::int64_t{0};
    bound.dim = bound.dim >= 0 ? dim_after_reshape(from, to, bound.dim) : PresenceBound::kElements;
    if (bound.dim >= 0 && to[static_cast<std::size_t>(bound.dim)] == extent) continue;
    if (!before.mask && (bound.is_broadcast || extent == 1)) {
      bound.is_broadcast = bound.dim >= 0;
      continue;
    }
    DerivedBounds& made = made_[{id, static_cast<std::size_t>(&bound - moved.data())}];
    if (made.from != List{before}) {
      Builder b(k_, id);
      made = {{before}, {reshaped(b, before, from, to)}};
    }
    bound = made.bounds[0];
  }
  set(k_[id].results[0], std::move(moved));
}

// ---- boxes
Value Absence::limit(Value view, std::int64_t axis, Type type) {
  if (const OpId make = maker_of(k_, view)) return made_extent(k_, make, static_cast<int>(axis));
  Value& v = limits_[{view.index, axis}];
  if (v) return v;
  // At the start of the body, so that equal bounds share one value that is visible in every region.
  Builder b(k_);
  b.before(k_[k_.body()].first);
  return v = b.op(Opcode::ViewDim, {view}, type, {{AttrName::axis, axis}});
}

/// Returns the bounds of the box that a load reads.
Absence::List Absence::outside(OpId op) {
  const BoxAccess a = access_of(k_, k_[op]);
  List bounds = at_offsets(op);
  merge_bounds(bounds, at_indices(op));
  for (int v = 0; v < static_cast<int>(a.axes.size()); ++v) {
    const AccessAxis& axis = a.axes[static_cast<std::size_t>(v)];
    // An element that an index tile selects outside of the view is present, with value 0.
    if (axis.in_bounds || axis.is_gathered() ||
        known_.is_inside(axis.offset, axis.extent, a.view, v, op))
      continue;
    const int dim = axis.tile_dim < 0 ? PresenceBound::kNotSplit : axis.tile_dim;
    bounds.push_back({dim, axis.offset, limit(a.view, v, k_.type(axis.offset))});
  }
  return bounds;
}

void Absence::load(OpId op) {
  // A single element is present everywhere: outside of its view it is 0.
  if (!k_.type(k_[op].results[0]).is_tile()) {
    set(k_[op].results[0], at_offsets(op));
    return;
  }
  List bounds = outside(op);
  set(k_[op].results[0], std::move(bounds));
}

std::vector<PresenceBound> Absence::before_fill(Value v) {
  const OpId def = k_[v].def;
  if (def && k_[def].opcode == Opcode::LoadView && !k_.type(v).is_tile()) return outside(def);
  return {of(v).begin(), of(v).end()};
}

void Absence::crop(OpId id) {
  // Limits are compared without sign.
  Value& end = ends_[id];
  const Value given = k_[id].operands[2];
  const OpId extent = k_[given].def;
  if (!end && extent && k_[extent].opcode == Opcode::ViewDim)
    end = limit(k_[extent].operands[0], k_[extent].attrs.i(AttrName::axis), k_.type(given));
  if (!end || k_.type(end) != k_.type(given)) {  // a made view has extents of one type
    Builder b(k_, id);
    const Value zero = b.constant(k_.type(given), std::int64_t{0});
    end = b.op(Opcode::Max, {given, zero});
  }
  const OpData& d = k_[id];
  List bounds(of(d.operands[0]).begin(), of(d.operands[0]).end());
  merge_bounds(bounds, std::array{PresenceBound{static_cast<int>(d.attrs.i(AttrName::axis)),
                                                d.operands[1], end}});
  set(d.results[0], std::move(bounds));
}

/// Returns the start of this CTA's slice of a tile at `offset`.
Value Absence::share(OpId id, Value offset, std::int64_t extent) {
  Value& start = shares_[{id, offset}];
  if (start) return start;
  Builder b(k_, id);
  const Type type = k_.type(offset);
  const Value rank = b.op(Opcode::ClusterRank, {}, Type::scalar(DType::i32));
  const Value first = b.mul(b.cast(rank, type.dtype()), b.constant(type, extent));
  return start = b.add(offset, first);
}

/// Propagates the bounds to the slice that this CTA receives.
void Absence::cluster_reduce_scatter(OpId id) {
  const Value whole = k_[id].operands[0], part = k_[id].results[0];
  const std::int64_t axis = k_[id].attrs.i(AttrName::axis);
  const std::int64_t extent = k_.type(part).shape()[static_cast<std::size_t>(axis)];
  List bounds(of(whole).begin(), of(whole).end());
  for (PresenceBound& bound : bounds) {
    if (bound.mask)
      fail(ErrorId::absent_one_by_one, k_[id].loc,
           {{k_[whole].def ? k_[k_[whole].def].loc : Loc(), "the tile"}});
    if (bound.dim == axis && !bound.is_broadcast) bound.offset = share(id, bound.offset, extent);
  }
  set(part, std::move(bounds));
}

// ---- folds and dots
void Absence::reduce(OpId id) {
  const int axis = static_cast<int>(k_[id].attrs.i(AttrName::axis));
  const Type operand = k_.type(k_[id].operands[0]);
  List kept, skipped;
  for (PresenceBound bound : union_of_operands(id)) {
    if (bound.dim == axis || bound.dim < 0 || bound.is_of_elements) {
      skipped.push_back(bound);
      continue;
    }
    if (bound.dim > axis) --bound.dim;
    kept.push_back(bound);
  }
  // A reduce_with has no known identity, so its result is absent if all of its elements are.
  if (k_[id].opcode == Opcode::ReduceWith && !skipped.empty()) {
    DerivedBounds& made = made_[{id, 0}];
    if (made.from != skipped) {
      Builder b(k_, id);
      const Value present = mask_of_all(b, skipped, operand);
      PresenceBound any;
      any.mask = b.op(Opcode::Reduce, {present}, {{AttrName::axis, axis}, {AttrName::kind, "or"}});
      any.dim = k_.type(any.mask).is_tile() ? PresenceBound::kElements : PresenceBound::kNotSplit;
      made = {skipped, {any}};
    }
    kept.push_back(made.bounds[0]);
  }
  const std::vector<Value> results(k_[id].results.begin(), k_[id].results.end());
  for (Value v : results) set(v, kept);
}

void Absence::dot(OpId id) {
  const OpData& d = k_[id];
  const int row = static_cast<int>(k_.type(d.operands[2]).rank()) - 2;
  List kept(of(d.operands[2]).begin(), of(d.operands[2]).end());
  for (int i = 0; i < 2; ++i)
    for (const PresenceBound& bound : of(d.operands[static_cast<std::size_t>(i)]))
      if (bound.dim == row + i && !bound.is_of_elements) merge_bounds(kept, std::array{bound});
  set(d.results[0], std::move(kept));
}

void Absence::op(OpId id) {
  const OpData& d = k_[id];
  using enum Opcode;
  if (d.opcode == LoadView) return load(id);
  if (d.opcode == AtomicView) {
    const auto stored = of(stored_value(d));
    List bounds(stored.begin(), stored.end());
    merge_bounds(bounds, at_offsets(id));
    merge_bounds(bounds, at_indices(id));
    set(d.results[0], std::move(bounds));
    return;
  }
  if (is_loop(d)) return loop(id);
  if (d.opcode == FillAbsent) {
    set(d.results[0], {});
    return;
  }
  if (d.opcode == Crop) return crop(id);
  if (d.opcode == ClusterReduceScatter) return cluster_reduce_scatter(id);
  if (d.opcode == ClusterGather) return;  // all present
  if (d.is(ExpandDims, Permute)) return remap(id);
  if (d.opcode == Broadcast) return broadcast(id);
  if (d.is(Reduce, ArgReduce, ReduceWith)) return reduce(id);
  if (d.opcode == Sort) return sort(id);
  if (d.opcode == KeyRanks) return key_ranks(id);
  if (d.opcode == Dot) return dot(id);
  if (d.opcode == Reshape) return reshape(id);
  if (d.opcode == TileSlice) return tile_slice(id);
  if (d.opcode == TileConcat) return tile_concat(id);
  if (d.opcode == Gather) return gather(id);
  if (d.opcode == Scatter) return scatter(id);
  if (d.opcode == If) return branch(id);
  if (d.opcode == Select) return select(id);
  const List all = union_of_operands(id);
  for (Value v : k_[id].results)
    if (k_.type(v).is_tile() || k_.type(v).is_scalar()) set(v, all);
}

// ---- bounds as conditions
/// Returns position < limit. The comparison is unsigned if values below zero are outside, too.
Value Absence::below(Builder& b, Value position, const PresenceBound& bound) {
  if (bound.is_upper) return b.cmp("lt", position, bound.limit);
  const DType u = k_.type(bound.limit).dtype() == DType::i32 ? DType::u32 : DType::u64;
  const auto unsigned_of = [&](Value v) {
    return b.op(Opcode::Bitcast, {v}, k_.type(v).with_dtype(u));
  };
  const Value end = unsigned_of(bound.limit);
  return b.cmp("lt", unsigned_of(position), end);
}

Value Absence::plain(Builder& b, Value offset) {
  const Value present = mask_of_all(b, of(offset), k_.type(offset));
  return present ? b.select(present, offset, b.constant(k_.type(offset), std::int64_t{0})) : offset;
}

Value Absence::scalar_inside(Builder& b, const PresenceBound& bound) {
  return bound.mask ? bound.mask : below(b, plain(b, bound.offset), bound);
}

Value Absence::line(Builder& b, const PresenceBound& bound, std::int64_t extent) {
  if (bound.mask) return bound.mask;
  if (bound.is_broadcast)
    return b.op(Opcode::Splat, {scalar_inside(b, bound)},
                Type::tile({DType::i1, false}, std::span(&extent, 1)));
  const Value line = index_line(b, k_.type(bound.offset).dtype(), extent);
  return below(b, b.add(line, plain(b, bound.offset)), bound);
}

Value Absence::mask(Builder& b, const PresenceBound& bound, std::span<const std::int64_t> shape) {
  const Type type = Type::tile({DType::i1, false}, shape);
  if (bound.dim == PresenceBound::kElements) return bound.mask;
  if (bound.is_whole() && !(bound.mask && bound.dim >= 0))
    return b.op(Opcode::Splat, {scalar_inside(b, bound)}, type);
  const Value inside = line(b, bound, shape[static_cast<std::size_t>(bound.dim)]);
  return repeated(b, inside, bound.dim, shape);
}

Value Absence::present(Builder& b, const PresenceBound& bound, Type type) {
  return type.is_tile() ? mask(b, bound, type.shape()) : scalar_inside(b, bound);
}

Value Absence::line_of_all(Builder& b, std::span<const PresenceBound> bounds, std::int64_t extent) {
  Value all;
  for (const PresenceBound& bound : bounds) all = both(b, all, line(b, bound, extent));
  return all;
}

Value Absence::mask_of_all(Builder& b, std::span<const PresenceBound> bounds, Type type) {
  Value all;
  for (const PresenceBound& bound : bounds) all = both(b, all, present(b, bound, type));
  return all;
}

}  // namespace tegula::ir
