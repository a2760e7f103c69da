#pragma once
// Random programs, continued: parts of tiles, tiles put together, elements that an index chooses,
// and products side by side.
#include "tests/fuzz/random_program_order.h"

namespace tegula::fuzz {

inline void RandomProgram::grow_slice() {
  Known a = any_tile();
  Shape s = shape_of(a);
  ir::Ints offsets;
  for (std::int64_t& extent : s) {
    const std::int64_t whole = extent;
    if (chance(60)) extent = between(1, whole);
    offsets.push_back(chance(40) ? whole - extent : between(0, whole - extent));
  }
  a.v = b_.op(ir::Opcode::TileSlice, {a.v}, tile(type(a).dtype(), s),
              {{ir::AttrName::offsets, offsets}});
  shapes_.push_back(s);
  keep(a);
}

/// Parts of one shape, or of separate extents along the axis.
inline void RandomProgram::grow_concat() {
  const Known first = any_tile();
  const DType d = type(first).dtype();
  const Shape s = shape_of(first);
  const auto axis = static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size())));
  if (type(first).count() > 1024) return;
  std::vector<Known> parts{first};
  const std::int64_t more = between(1, 2);
  for (std::int64_t i = 0; i < more; ++i) {
    Shape of_part = s;
    if (chance(40)) of_part[axis] = between(1, s[axis]);
    parts.push_back(get(d, of_part));
  }
  if (chance(50)) std::swap(parts.front(), parts.back());
  std::vector<ir::Value> values;
  for (const Known& part : parts) values.push_back(part.v);
  const ir::Value v = b_.op(ir::Opcode::TileConcat, values,
                            {{ir::AttrName::axis, static_cast<std::int64_t>(axis)}});
  Known k = join(v, {&parts.front(), &parts.back(), &parts[parts.size() / 2]});
  // Whoever lacks a part's coordinate lacks elements.
  if (k.absent_as_a_whole || std::ranges::find(k.absent, true) != k.absent.end())
    k.absent.assign(k.absent.size(), true);
  keep(k);
}

/// An i32 index of that shape, whose elements are in [0, extent).
inline Known RandomProgram::index_into(const Shape& s, std::size_t axis, std::int64_t extent) {
  const auto exact = [](const Known& k) { return k.error == 0; };
  Known at = chance(60) ? get(DType::i32, s, exact) : index(DType::i32, s);
  if (chance(20)) {
    // Reversed along the axis.
    Known along{b_.op(ir::Opcode::Arange, {}, tile(DType::i32, {s[axis]}),
                      {{ir::AttrName::start, std::int64_t{0}}})};
    along.v = b_.sub(b_.i32(s[axis] - 1), along.v);
    for (std::size_t i = 0; i < s.size(); ++i)
      if (i != axis)
        along.v = b_.op(ir::Opcode::ExpandDims, {along.v},
                        {{ir::AttrName::axis, static_cast<std::int64_t>(i)}});
    at = broadcast(along, s);
    at.absent.assign(s.size(), false);
  }
  at.v = b_.rem(b_.op(ir::Opcode::And, {at.v, b_.i32(0x7fffffff)}), b_.i32(extent));
  if (chance(15)) at.v = b_.cast(at.v, DType::i64);
  return at;
}

inline void RandomProgram::grow_gather() {
  const Known a = any_tile();
  Shape s = shape_of(a);
  const auto axis = static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size())));
  const std::int64_t extent = s[axis];
  if (chance(50)) s[axis] = between(1, extent);
  const Known at = index_into(s, axis, extent);
  const std::array operands{a.v, at.v};
  Known k = join(
      b_.op(ir::Opcode::Gather, operands, {{ir::AttrName::axis, static_cast<std::int64_t>(axis)}}),
      {&a, &at});
  k.error = a.error, k.magnitude = a.magnitude, k.whole = a.whole;
  if (!k.is_present()) k.absent.assign(s.size(), true);
  keep(k);
}

/// Stores go to separate places; integers are combined at any, out of the tile too.
inline void RandomProgram::grow_scatter() {
  const Known a = any_tile();
  const DType d = type(a).dtype();
  const Shape s = shape_of(a);
  const auto axis = static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size())));
  const bool combines = d == DType::i32 && chance(60);
  Shape of_values = s;
  if (chance(50)) of_values[axis] = between(1, s[axis]);
  const Known values = get(d, of_values);
  Known at{b_.op(ir::Opcode::Arange, {}, tile(DType::i32, {of_values[axis]}),
                 {{ir::AttrName::start, between(-3, 3)}})};
  if (chance(50)) at.v = b_.sub(b_.i32(s[axis] - 1), at.v);
  for (std::size_t i = 0; i < s.size(); ++i)
    if (i != axis)
      at.v = b_.op(ir::Opcode::ExpandDims, {at.v},
                   {{ir::AttrName::axis, static_cast<std::int64_t>(i)}});
  at = broadcast(at, of_values);
  at.absent.assign(s.size(), false);
  if (combines && chance(70)) at = index_into(of_values, axis, s[axis]);
  const char* kind = combines ? one_of({"add", "max", "min", "or"}) : "store";
  const std::array operands{a.v, at.v, values.v};
  Known k = join(
      b_.op(ir::Opcode::Scatter, operands,
            {{ir::AttrName::axis, static_cast<std::int64_t>(axis)}, {ir::AttrName::kind, kind}}),
      {&a, &values});
  if (combines) k.magnitude = 0x1p31;
  k.absent_as_a_whole = a.absent_as_a_whole;
  k.absent = a.absent;
  if (!k.is_present()) k.absent.assign(s.size(), true);
  keep(k);
}

inline void RandomProgram::grow_batched_dot() {
  const bool tensor = chance(60);
  const std::int64_t batch = between(1, 3), m = tensor ? 16 * between(1, 2) : between(1, 12),
                     n = tensor ? 8 * between(1, 3) : between(1, 12),
                     k = tensor ? 16 : between(1, 12);
  const DType d = chance(tensor ? 85 : 40) ? DType::bf16 : DType::f32;
  const auto plain = [](const Known& v) { return v.error == 0 && v.whole; };
  const Known a = clamp(get(d, {batch, m, k}, plain), 16),
              b = contracted(a, clamp(get(d, {batch, k, n}, plain), 16));
  const Known acc = chance(60) ? constant(DType::f32, {batch, m, n}, 0)
                               : clamp(get(DType::f32, {batch, m, n}, plain), 4096);
  Known r{b_.op(ir::Opcode::Dot, {a.v, b.v, acc.v}), acc.magnitude + static_cast<double>(k) * 256};
  r.absent = acc.absent;
  r.absent_as_a_whole = acc.absent_as_a_whole;
  r.absent.resize(3);
  r.absent[1] = r.absent[1] || (a.absent.size() == 3 && a.absent[1]);
  r.absent[2] = r.absent[2] || (b.absent.size() == 3 && b.absent[2]);
  keep(r);
}

/// Adds an exchange between the programs of a cluster, where all of them come by.
inline void RandomProgram::grow_cluster() {
  const int ctas = kernel.info.cluster;
  if (ctas == 1 || depth_ > 0) return;
  std::vector<Known> given{any_tile()};
  if (type(given[0]).rank() > 3 || type(given[0]).count() * ctas > 4096) return;
  if (chance(40)) given.push_back(get(number(), shape_of(given[0])));
  std::vector<ir::Value> operands;
  std::vector<ir::Type> types;
  for (const Known& k : given) {
    Shape s = shape_of(k);
    s.insert(s.begin(), ctas);
    operands.push_back(k.v);
    types.push_back(tile(type(k).dtype(), s));
  }
  const ir::OpId op = b_.create(ir::Opcode::ClusterGather, operands, types);
  for (std::size_t i = 0; i < given.size(); ++i) {
    Known k = given[i];
    k.v = kernel[op].results[i];
    k.absent.assign(types[i].shape().size(), false);
    k.absent_as_a_whole = false;
    keep(k);
  }
  if (chance(50)) keep({b_.op(ir::Opcode::ClusterRank, {}, ir::Type::scalar(DType::i32)), 8});
}

}  // namespace tegula::fuzz
