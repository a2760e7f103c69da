#include "codegen/lower/fold_tuple.h"

#include <numeric>

#include "ir/layout/linear_layout.h"

namespace tegula::codegen {

using namespace ir;

Combine combine_by_region(Lowering& l, RegionId region) {
  return [&l, region](const Tuple& a, const Tuple& b) {
    Tuple args = a;
    args.insert(args.end(), b.begin(), b.end());
    Tuple combined = l.inline_scalar_region(region, args);
    // A user function may return a scalar.
    for (std::size_t i = 0; i < combined.size(); ++i)
      if (!l.type(combined[i]).is_vec()) combined[i] = l.splat(combined[i], l.type(a[i]).count());
    return combined;
  };
}

Combine combine_valid(Lowering& l, Combine combine) {
  return [&l, combine = std::move(combine)](const Tuple& a, const Tuple& b) {
    const Value left = a.back(), right = b.back();
    const Tuple values = combine(Tuple(a.begin(), a.end() - 1), Tuple(b.begin(), b.end() - 1));
    const Value both = l.b.op(Opcode::And, {left, right});
    Tuple chosen;
    for (std::size_t i = 0; i < values.size(); ++i)
      chosen.push_back(l.b.select(both, values[i], l.b.select(left, a[i], b[i])));
    chosen.push_back(l.b.op(Opcode::Or, {left, right}));
    return chosen;
  };
}

Value inside_along(Lowering& l, const LinearLayout& layout, int dim) {
  if (layout.cover()[dim] == layout.shape()[dim]) return {};
  return l.b.cmp("lt", index_along(l, layout, dim), l.b.i32(layout.shape()[dim]));
}

namespace {

std::vector<Value> read_parts(Lowering& l, Value address, Type type, std::int64_t parts,
                              bool is_flag) {
  const std::int64_t bytes = size_bytes(type.dtype()), registers = type.count();
  const std::int64_t width = std::gcd(parts, std::int64_t{16} / bytes);
  std::vector<Value> out;
  for (std::int64_t first = 0; first < parts; first += width) {
    const Value from = l.b.add(address, l.b.i32(first * bytes));
    const Value loaded = l.b.op(Opcode::LdShared, {from}, Type::vec(type.elem(), registers * width),
                                {{AttrName::width, width}});
    for (std::int64_t i = 0; i < width; ++i) {
      std::vector<std::int64_t> indices;
      for (std::int64_t r = 0; r < registers; ++r) indices.push_back(r * width + i);
      const Value part = l.regs(loaded, indices);
      out.push_back(is_flag ? l.b.cmp("ne", part, l.b.i32(0)) : part);
    }
  }
  return out;
}

}  // namespace

std::vector<Value> exchange_parts(Lowering& l, Value v, const WarpParts& p) {
  const Type type = l.type(v);
  const Value wide = type.dtype() == DType::i1 ? l.b.cast(v, DType::i32) : v;
  const std::int64_t bytes = size_bytes(l.type(wide).dtype());
  const Value base = l.scratch(p.elements * p.parts * bytes, 16);
  const Value address = l.b.add(l.b.mul(p.element(), l.b.i32(p.parts * bytes)), base);
  const Value own_part = p.own_part(bytes);
  l.barrier();
  std::vector<Value> operands{l.b.add(address, own_part), wide};
  if (const Value writes = p.writes()) operands.push_back(l.splat(writes, type.count()));
  l.b.effect(Opcode::StShared, operands, {{AttrName::width, 1}});
  l.barrier();
  return read_parts(l, address, l.type(wide), p.parts, type.dtype() == DType::i1);
}

std::uint32_t lanes_of_copies(const LinearLayout& layout) {
  constexpr int kLaneBits = 5;
  std::uint32_t lanes = layout.free_bits(HwDim::Lane);
  for (int bit = layout.in_bits(HwDim::Lane); bit < kLaneBits; ++bit) lanes |= 1u << bit;
  return lanes;
}

Value is_first_copy(Lowering& l, const LinearLayout& layout, std::uint32_t lanes) {
  Value first;
  const auto none_of = [&](HwDim in, std::uint32_t bits) {
    return l.b.cmp("eq", l.b.op(Opcode::And, {l.coordinate(in), l.b.i32(bits)}), l.b.i32(0));
  };
  if (lanes != 0) first = none_of(HwDim::Lane, lanes);
  if (const std::uint32_t warps = layout.free_bits(HwDim::Warp))
    first = l.and_predicates(first, none_of(HwDim::Warp, warps));
  return l.and_predicates(first, l.is_replica_zero_along(layout, HwDim::Warp));
}

}  // namespace tegula::codegen
