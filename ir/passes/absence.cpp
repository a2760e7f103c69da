// Forward propagation of absence; loops are iterated until nothing changes.
#include "ir/passes/absence.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/builder.h"
#include "ir/reshape_groups.h"
#include "tegula/error.h"

namespace tegula::ir {

Absence::Absence(Kernel& k) : k_(k) { region(k.body()); }

std::span<const Bound> Absence::of(Value v) const {
  const auto it = bounds_.find(v);
  return it == bounds_.end() ? std::span<const Bound>() : std::span<const Bound>(it->second);
}

bool Absence::reads_zero(Value v) const {
  const OpId def = k_[v].def;
  if (!def) return of(v).empty();
  const Opcode o = k_[def].opcode;
  if (o == Opcode::LoadView) return at_offsets(def).empty();
  // A cast keeps 0; shape ops move elements only.
  if (o == Opcode::Cast || o == Opcode::Permute || o == Opcode::ExpandDims)
    return reads_zero(k_[def].operands[0]);
  return of(v).empty();
}

Absence::List Absence::at_offsets(OpId op) const {
  const bool is_store = k_[op].opcode == Opcode::StoreView;
  List bounds;
  for (std::size_t i = is_store ? 2 : 1; i < k_[op].operands.size(); ++i)
    for (const Bound& bound : of(k_[op].operands[i]))
      if (std::ranges::find(bounds, bound) == bounds.end()) bounds.push_back(bound);
  return bounds;
}

bool Absence::set(Value v, List bounds) {
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
  for (Value v : k_[op].operands)
    for (const Bound& bound : of(v)) {
      // A scalar's absence makes the whole tile absent.
      if (std::ranges::find(all, bound) == all.end()) all.push_back(bound);
    }
  return all;
}

void Absence::remap(OpId op, const std::vector<int>& new_dim) {
  List moved;
  for (Bound bound : of(k_[op].operands[0])) {
    if (bound.dim >= 0) bound.dim = new_dim[static_cast<std::size_t>(bound.dim)];
    moved.push_back(bound);
  }
  for (Value v : k_[op].results) set(v, moved);
}

void Absence::broadcast(OpId id) {
  const auto from = k_.type(k_[id].operands[0]).shape(), to = k_.type(k_[id].results[0]).shape();
  List wide(of(k_[id].operands[0]).begin(), of(k_[id].operands[0]).end());
  for (Bound& bound : wide) {
    if (bound.dim < 0) continue;
    const auto d = static_cast<std::size_t>(bound.dim);
    bound.is_repeated |= from[d] != to[d];
  }
  set(k_[id].results[0], std::move(wide));
}

/// Splitting or merging moves elements between dimensions; followed are dimensions that stay, and
/// bounds that leave out everything or nothing.
void Absence::reshape(OpId id) {
  const auto from = k_.type(k_[id].operands[0]).shape(), to = k_.type(k_[id].results[0]).shape();
  List moved(of(k_[id].operands[0]).begin(), of(k_[id].operands[0]).end());
  for (Bound& bound : moved) {
    if (bound.dim < 0) continue;
    const std::int64_t extent = from[static_cast<std::size_t>(bound.dim)];
    bound.dim = dim_after_reshape(from, to, bound.dim);
    if (bound.dim >= 0 && to[static_cast<std::size_t>(bound.dim)] == extent) continue;
    if (!bound.is_repeated && extent != 1)
      throw CompileError(Diagnostic{"",
                                    "reshape of a tile that may reach outside its view",
                                    k_[id].loc,
                                    {},
                                    "give the elements outside a value by fill_absent() first"});
    bound.is_repeated = bound.dim >= 0;
  }
  set(k_[id].results[0], std::move(moved));
}

Value Absence::limit(Value view, std::int64_t axis, Type type) {
  Value& v = limits_[{view.index, axis}];
  if (v) return v;
  // At the head of the body, so that equal limits are one value that every region sees.
  Builder b(k_);
  b.before(k_[k_.body()].first);
  return v = b.op(Opcode::ViewDim, {view}, type, {{AttrName::axis, axis}});
}

void Absence::load(OpId op) {
  // Copies: making the limits' ops moves the op.
  const std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
  const Ints axes(k_[op].attrs.ints(AttrName::axes).begin(),
                  k_[op].attrs.ints(AttrName::axes).end());
  const Ints inside(k_[op].attrs.ints(AttrName::inside).begin(),
                    k_[op].attrs.ints(AttrName::inside).end());
  const Value view = operands[0];
  List bounds = at_offsets(op);
  for (std::int64_t v = 0; v < k_.type(view).rank(); ++v) {
    if (std::ranges::find(inside, v) != inside.end()) continue;
    const auto t = std::ranges::find(axes, v);
    const Value offset = operands[static_cast<std::size_t>(1 + v)];
    bounds.push_back({t == axes.end() ? -1 : static_cast<int>(t - axes.begin()), offset,
                      limit(view, v, k_.type(offset))});
  }
  set(k_[op].results[0], std::move(bounds));
}

void Absence::crop(OpId id) {
  // Limits are compared without sign.
  Value& end = ends_[id];
  if (!end) {
    Builder b(k_);
    b.before(id);
    b.loc = k_[id].loc;
    const Value given = k_[id].operands[2];
    const Value zero = b.constant(k_.type(given), std::int64_t{0});
    end = b.op(Opcode::Max, {given, zero});
  }
  const OpData& d = k_[id];
  List bounds(of(d.operands[0]).begin(), of(d.operands[0]).end());
  const Bound cut{static_cast<int>(d.attrs.i(AttrName::axis)), d.operands[1], end};
  if (std::ranges::find(bounds, cut) == bounds.end()) bounds.push_back(cut);
  set(d.results[0], std::move(bounds));
}

/// Where the program's part of a tile at `offset` begins.
Value Absence::share(OpId id, Value offset, std::int64_t extent) {
  Value& at = shares_[{id, offset}];
  if (at) return at;
  Builder b(k_);
  b.before(id);
  b.loc = k_[id].loc;
  const Type type = k_.type(offset);
  const Value rank = b.op(Opcode::ClusterRank, {}, Type::scalar(DType::i32));
  const Value first = b.mul(b.cast(rank, type.dtype()), b.constant(type, extent));
  return at = b.add(offset, first);
}

/// The receiver's own part.
void Absence::cluster_sum(OpId id) {
  const Value whole = k_[id].operands[0], part = k_[id].results[0];
  const std::int64_t axis = k_[id].attrs.i(AttrName::axis);
  const std::int64_t extent = k_.type(part).shape()[static_cast<std::size_t>(axis)];
  List bounds(of(whole).begin(), of(whole).end());
  for (Bound& bound : bounds)
    if (bound.dim == axis && !bound.is_repeated) bound.offset = share(id, bound.offset, extent);
  set(part, std::move(bounds));
}

/// What either side leaves absent.
void Absence::branch(OpId id) {
  const std::vector<RegionId> regions(k_[id].regions.begin(), k_[id].regions.end());
  for (RegionId r : regions) region(r);
  for (std::size_t i = 0; i < k_[id].results.size(); ++i) {
    List either;
    for (RegionId r : regions)
      for (const Bound& bound : of(k_[k_.terminator(r)].operands[i]))
        if (std::ranges::find(either, bound) == either.end()) either.push_back(bound);
    set(k_[id].results[i], std::move(either));
  }
}

void Absence::op(OpId id) {
  const OpData& d = k_[id];
  using enum Opcode;
  if (d.opcode == LoadView) return load(id);
  if (d.opcode == For || d.opcode == While) return loop(id);
  if (d.opcode == FillAbsent) {
    set(d.results[0], {});
    return;
  }
  if (d.opcode == Crop) return crop(id);
  if (d.opcode == ClusterSum) return cluster_sum(id);
  const auto dims = [&](Value v) { return static_cast<int>(k_.type(v).rank()); };
  std::vector<int> map;
  if (d.opcode == ExpandDims) {
    const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
    for (int i = 0; i < dims(d.operands[0]); ++i) map.push_back(i < axis ? i : i + 1);
    return remap(id, map);
  }
  if (d.opcode == Permute) {
    map.resize(static_cast<std::size_t>(dims(d.operands[0])));
    const auto order = d.attrs.ints(AttrName::order);
    for (std::size_t i = 0; i < order.size(); ++i)
      map[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    return remap(id, map);
  }
  if (d.opcode == Broadcast) return broadcast(id);
  if (d.opcode == Reduce || d.opcode == ArgReduce || d.opcode == ReduceWith) {
    const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
    List kept;
    for (Bound bound : union_of_operands(id)) {
      if (bound.dim == axis || bound.dim < 0) continue;
      if (bound.dim > axis) --bound.dim;
      kept.push_back(bound);
    }
    for (Value v : d.results) set(v, kept);
    return;
  }
  if (d.opcode == Dot) {
    List kept;
    const auto take = [&](Value v, int dim) {
      for (const Bound& bound : of(v))
        if (bound.dim == dim && std::ranges::find(kept, bound) == kept.end()) kept.push_back(bound);
    };
    for (int dim : {-1, 0, 1}) take(d.operands[2], dim);
    take(d.operands[0], 0);
    take(d.operands[1], 1);
    set(d.results[0], std::move(kept));
    return;
  }
  if (d.opcode == Reshape) return reshape(id);
  if (d.opcode == If) return branch(id);
  const List all = union_of_operands(id);
  for (Value v : k_[id].results)
    if (k_.type(v).is_tile() || k_.type(v).is_scalar()) set(v, all);
}

void Absence::loop(OpId id) {
  const std::size_t first = k_[id].opcode == Opcode::For ? 3 : 0;
  const RegionId body = k_[id].regions.back();
  const std::size_t arg0 = k_[id].opcode == Opcode::For ? 1 : 0;
  const std::size_t carries = k_[id].results.size();
  std::vector<List> carried(carries);
  for (std::size_t i = 0; i < carries; ++i)
    carried[i].assign(of(k_[id].operands[first + i]).begin(), of(k_[id].operands[first + i]).end());
  for (bool changed = true; changed;) {
    changed = false;
    for (RegionId r : k_[id].regions)
      for (std::size_t i = 0; i < carries; ++i) set(k_[r].args[arg0 + i], carried[i]);
    for (RegionId r : k_[id].regions) region(r);
    for (std::size_t i = 0; i < carries; ++i) {
      for (const Bound& bound : of(k_[k_.terminator(body)].operands[i])) {
        if (std::ranges::find(carried[i], bound) != carried[i].end()) continue;
        if (!k_.is_visible_from(bound.offset, id) || !k_.is_visible_from(bound.limit, id))
          throw CompileError(
              Diagnostic{"",
                         "a loop carries a tile whose absent elements change from step to step",
                         k_[id].loc,
                         {},
                         "reduce the tile inside the loop, or give the elements outside a value by "
                         "fill_absent() first"});
        carried[i].push_back(bound);
        changed = true;
      }
    }
  }
  for (std::size_t i = 0; i < carries; ++i) set(k_[id].results[i], carried[i]);
}

}  // namespace tegula::ir
