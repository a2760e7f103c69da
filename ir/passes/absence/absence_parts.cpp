// Absence of tile slices, of concatenated tiles, and of gathered and scattered elements.
#include <algorithm>

#include "ir/passes/absence/absence.h"

namespace tegula::ir {
namespace {

/// Returns the bounds on coordinates along `dim`.
std::vector<PresenceBound> along(std::span<const PresenceBound> bounds, int dim) {
  std::vector<PresenceBound> found;
  for (const PresenceBound& bound : bounds)
    if (bound.dim == dim && !bound.is_of_elements) found.push_back(bound);
  return found;
}

/// Returns the concatenation of the lists, with a separator after each.
std::vector<PresenceBound> key_of(std::span<const std::vector<PresenceBound>> lists) {
  std::vector<PresenceBound> key;
  for (const auto& list : lists) {
    key.insert(key.end(), list.begin(), list.end());
    key.push_back(PresenceBound{});
  }
  return key;
}

}  // namespace

/// Returns the bound in coordinates relative to the start of the slice.
PresenceBound Absence::sliced(OpId id, PresenceBound bound) {
  const auto dim = static_cast<std::size_t>(bound.dim);
  const std::int64_t start = k_[id].attrs.ints(AttrName::offsets)[dim];
  const std::int64_t before = k_.type(k_[id].operands[0]).shape()[dim],
                     extent = k_.type(k_[id].results[0]).shape()[dim];
  Builder b(k_, id);
  if (bound.mask && before != extent) {
    const Type line = Type::tile({DType::i1, false}, std::span(&extent, 1));
    bound.mask = b.op(Opcode::TileSlice, {bound.mask}, line, {{AttrName::offsets, Ints{start}}});
  } else if (!bound.mask && !bound.is_broadcast && start != 0) {
    const Value offset = plain(b, bound.offset);
    bound.offset = b.add(offset, b.constant(k_.type(offset), start));
  }
  return bound;
}

void Absence::tile_slice(OpId id) {
  List moved(of(k_[id].operands[0]).begin(), of(k_[id].operands[0]).end());
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const PresenceBound before = moved[i];
    if (before.dim == PresenceBound::kElements) moved[i].mask = moved_mask(id, before.mask);
    if (before.dim < 0) continue;
    DerivedBounds& made = made_[{id, i}];
    if (made.from != List{before}) made = {{before}, {sliced(id, before)}};
    moved[i] = made.bounds[0];
  }
  set(k_[id].results[0], std::move(moved));
}

/// Bounds that all parts share stay bounds. The others become a mask, and bounds along the other
/// dimensions for the coordinates that no part has.
void Absence::tile_concat(OpId id) {
  const int axis = static_cast<int>(k_[id].attrs.i(AttrName::axis));
  const std::vector<Value> parts(k_[id].operands.begin(), k_[id].operands.end());
  std::vector<List> rest;
  for (Value v : parts) rest.emplace_back(of(v).begin(), of(v).end());
  List all;
  for (const PresenceBound& bound : List(rest[0])) {
    const bool is_shared = std::ranges::all_of(
        rest, [&](const List& list) { return std::ranges::find(list, bound) != list.end(); });
    if (!is_shared || bound.dim == axis || bound.dim == PresenceBound::kElements) continue;
    all.push_back(bound);
    for (List& list : rest) std::erase(list, bound);
  }
  const Value result = k_[id].results[0];
  if (std::ranges::any_of(rest, [](const List& list) { return !list.empty(); })) {
    all.push_back(concatenated(id, parts, rest, axis));
    for (int dim = 0; dim < k_.type(result).rank(); ++dim)
      if (dim != axis) join_lines(id, rest, dim, all);
  }
  set(result, std::move(all));
}

PresenceBound Absence::concatenated(OpId id, std::span<const Value> parts,
                                    std::span<const List> bounds, int axis) {
  DerivedBounds& made = made_[{id, 0}];
  if (const List key = key_of(bounds); made.from != key) {
    Builder b(k_, id);
    std::vector<Value> masks;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Type type = k_.type(parts[i]);
      const Value m = mask_of_all(b, bounds[i], type);
      masks.push_back(m ? m : b.constant(type.with_elem({DType::i1, false}), std::int64_t{1}));
    }
    PresenceBound elements{PresenceBound::kElements};
    elements.mask = b.op(Opcode::TileConcat, masks, {{AttrName::axis, axis}});
    made = {key, {elements}};
  }
  return made.bounds[0];
}

/// Adds a bound for the coordinates along `dim` that no part has.
void Absence::join_lines(OpId id, std::span<const List> bounds, int dim, List& all) {
  std::vector<List> lines;
  for (const List& list : bounds) lines.push_back(along(list, dim));
  if (std::ranges::any_of(lines, [](const List& list) { return list.empty(); })) return;
  DerivedBounds& made = made_[{id, static_cast<std::size_t>(1 + dim)}];
  if (const List key = key_of(lines); made.from != key) {
    Builder b(k_, id);
    const std::int64_t extent = k_.type(k_[id].results[0]).shape()[static_cast<std::size_t>(dim)];
    Value any;
    for (const List& list : lines) {
      const Value one = line_of_all(b, list, extent);
      any = any ? b.op(Opcode::Or, {any, one}) : one;
    }
    PresenceBound either{dim};
    either.mask = any;
    made = {key, {either}};
  }
  all.push_back(made.bounds[0]);
}

/// An index outside of the tile yields 0, which is present. The mask is therefore gathered
/// inverted: true for absent elements.
void Absence::gather(OpId id) {
  const Value tile = k_[id].operands[0], index = k_[id].operands[1];
  const std::int64_t axis = k_[id].attrs.i(AttrName::axis);
  List all(of(index).begin(), of(index).end()), chosen;
  for (const PresenceBound& bound : List(of(tile).begin(), of(tile).end())) {
    if (bound.dim >= 0 && bound.dim != axis && !bound.is_of_elements)
      merge_bounds(all, std::array{bound});
    else
      chosen.push_back(bound);
  }
  if (!chosen.empty()) {
    DerivedBounds& made = made_[{id, 0}];
    if (made.from != chosen) {
      Builder b(k_, id);
      const Value present = mask_of_all(b, chosen, k_.type(tile));
      const Value absent = b.op(Opcode::Not, {present});
      PresenceBound elements{PresenceBound::kElements};
      // The result is absent where the index is, whatever is gathered there.
      const Value index = filled_index(b, id);
      elements.mask =
          b.op(Opcode::Not, {b.op(Opcode::Gather, {absent, index}, {{AttrName::axis, axis}})});
      made = {chosen, {elements}};
    }
    all.push_back(made.bounds[0]);
  }
  set(k_[id].results[0], std::move(all));
}

Value Absence::dropped_index(Builder& b, OpId scatter) {
  const Value index = k_[scatter].operands[1];
  List bounds(of(index).begin(), of(index).end());
  merge_bounds(bounds, of(k_[scatter].operands[2]));
  const Value present = mask_of_all(b, bounds, k_.type(index));
  if (!present) return index;
  const Value none = b.constant(Type::scalar(k_.type(index).dtype()), std::int64_t{-1});
  return b.select(present, index, none);
}

Value Absence::filled_index(Builder& b, OpId gather) {
  const Value index = k_[gather].operands[1];
  if (is_zero_filled(index)) return index;
  const Value present = mask_of_all(b, of(index), k_.type(index));
  if (!present) return index;
  return b.select(present, index,
                  b.constant(Type::scalar(k_.type(index).dtype()), std::int64_t{0}));
}

/// Stored elements are present; the others are as before.
void Absence::scatter(OpId id) {
  const Value into = k_[id].operands[0];
  const List before(of(into).begin(), of(into).end());
  if (before.empty() || k_[id].attrs.s(AttrName::kind) != "store")
    return void(set(k_[id].results[0], before));
  std::vector<List> lists{before};
  for (std::size_t i = 1; i < 3; ++i)
    lists.emplace_back(of(k_[id].operands[i]).begin(), of(k_[id].operands[i]).end());
  DerivedBounds& made = made_[{id, 0}];
  if (const List key = key_of(lists); made.from != key) {
    Builder b(k_, id);
    const Value present = mask_of_all(b, before, k_.type(into)), index = dropped_index(b, id);
    const Type flags = k_.type(index).with_elem({DType::i1, false});
    const Value ones = b.constant(flags, std::int64_t{1});
    PresenceBound elements{PresenceBound::kElements};
    elements.mask =
        b.op(Opcode::Scatter, {present, index, ones},
             {{AttrName::axis, k_[id].attrs.i(AttrName::axis)}, {AttrName::kind, "store"}});
    made = {key, {elements}};
  }
  set(k_[id].results[0], made.bounds);
}

}  // namespace tegula::ir
