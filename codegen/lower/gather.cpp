// Lowering of gathers and scatters along a tile's axis. A gather selects among the registers of the
// thread if these hold few elements of the line and the layouts otherwise agree. A gather that
// reverses lines exchanges lanes, or warps without bank conflicts. Any other gather writes the tile
// to shared memory and reads each element at its index. A scatter stores there; a combining scatter
// lets each element of the tile combine the values that name it, in order.
#include <map>
#include <utility>

#include "codegen/lower/linear_exchange.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/shuffle.h"
#include "ir/analysis/reversal.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/thread_fn.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Maximum number of elements of a line that a chain of selects chooses from.
constexpr int kFewElements = 8;

/// For each result register, the registers of its line by index along the axis. The function
/// returns nothing if a thread does not hold all elements of its lines.
using Lines = std::vector<std::map<int, int>>;
std::optional<Lines> lines_in_registers(const LinearLayout& tile, const LinearLayout& result,
                                        int axis) {
  if (tile.shape()[axis] > kFewElements) return std::nullopt;
  for (int d = 0; d < tile.rank(); ++d) {
    const IndexFn from = index_fn(tile, d), to = index_fn(result, d);
    const bool agrees = d == axis ? from.thread == ThreadOffset{}
                                  : from.thread == to.thread && from.is_additive && to.is_additive;
    if (!agrees) return std::nullopt;
  }
  std::map<std::vector<int>, std::map<int, int>> by_line;
  const auto rest_of = [&](const ir::Dims& index) {
    std::vector<int> rest;
    for (int d = 0; d < index.size(); ++d)
      if (d != axis) rest.push_back(index[d]);
    return rest;
  };
  for (int r = 0; r < tile.registers(); ++r) {
    const ir::Dims index = tile.apply({.reg = r});
    by_line[rest_of(index)].try_emplace(index[axis], r);
  }
  Lines lines;
  for (int r = 0; r < result.registers(); ++r) {
    const auto line = by_line.find(rest_of(result.apply({.reg = r})));
    if (line == by_line.end() || std::ssize(line->second) < tile.shape()[axis]) return std::nullopt;
    lines.push_back(line->second);
  }
  return lines;
}

Value zeros(Lowering& l, Elem elem, std::int64_t count) {
  return l.splat(l.b.zero(Type::of(elem)), count);
}

/// Gathers by a chain of selects. An out-of-bounds index matches no element and yields 0.
Value from_registers(Lowering& l, Value tile, Value index, const Lines& lines,
                     const LinearLayout& layout, int axis) {
  const DType dtype = l.type(index).dtype();
  const auto count = static_cast<std::int64_t>(lines.size());
  Value chosen = zeros(l, l.type(tile).elem(), count);
  for (int i = 0; i < layout.shape()[axis]; ++i) {
    std::vector<std::int64_t> registers;
    for (const auto& line : lines) registers.push_back(line.at(i));
    const Value is_match = l.b.cmp("eq", index, l.b.constant(Type::scalar(dtype), std::int64_t{i}));
    chosen = l.b.select(is_match, l.regs(tile, std::move(registers)), chosen);
  }
  return chosen;
}

/// The bits of each hardware coordinate that must be inverted to reverse the lines along `axis`.
/// The function returns nothing if one of them also changes another dimension, or if they do not
/// form the whole index.
using Toggles = std::map<HwDim, int>;
std::optional<Toggles> reversal_of(const LinearLayout& layout, int axis) {
  if (layout.repeat_factor(axis) != 1 || layout.cover()[axis] != layout.shape()[axis])
    return std::nullopt;
  Toggles bits;
  int remaining = layout.shape()[axis] - 1;
  for (HwDim in : kIns)
    for (int bit = 0; bit < layout.in_bits(in); ++bit) {
      ir::Dims basis = layout.basis(in, bit);
      const int along = std::exchange(basis[axis], 0);
      if (along == 0) continue;
      const bool is_elsewhere = basis != ir::Dims::filled(layout.rank(), 0);
      if (is_elsewhere || (remaining & along) != along) return std::nullopt;
      remaining ^= along;
      bits[in] |= 1 << bit;
    }
  return remaining == 0 ? std::optional(bits) : std::nullopt;
}

/// Reads each element from another lane of the warp, another register, or both.
Value exchanged_in_warp(Lowering& l, Value tile, int registers, int lanes) {
  std::vector<std::int64_t> from;
  for (std::int64_t r = 0; r < l.type(tile).count(); ++r) from.push_back(r ^ registers);
  const Value own = l.regs(tile, std::move(from));
  return lanes == 0 ? own : shuffle(l, own, l.b.i32(lanes), "xor");
}

/// Reads each element from the thread whose number differs by `flips`; lanes vary fastest.
Value exchanged_in_memory(Lowering& l, Value tile, const LinearLayout& numbers, int flips) {
  const Value stored = as_stored(l, tile);
  const Elem elem = l.type(stored).elem();
  const int bytes = size_bytes(elem.dtype);
  const Value base = l.scratch(std::int64_t{numbers.shape()[0]} * bytes, 16);
  const IndexParts parts = l.index_parts(numbers, 0);
  // Thread bits and register bits are disjoint, so register offsets are immediates of one address.
  const Value registers = l.b.mul(l.constants(DType::i32, parts.constant), l.b.i32(bytes));
  const auto address_of = [&](Value thread) {
    return l.b.add(registers, l.b.add(l.b.mul(thread, l.b.i32(bytes)), base));
  };
  l.barrier();
  l.b.effect(Opcode::StShared, {address_of(parts.thread), stored}, {{AttrName::width, 1}});
  l.barrier();
  const Value other = l.b.op(Opcode::Xor, {parts.thread, l.b.i32(flips)});
  const Value read = l.b.op(Opcode::LdShared, {address_of(other)},
                            Type::vec(elem, l.type(stored).count()), {{AttrName::width, 1}});
  return as_before(l, read, l.type(tile).elem());
}

/// Reverses the lines along `axis`; returns nothing if the layout's bits do not allow it.
std::optional<Value> reversed(Lowering& l, Value tile, const LinearLayout& layout, int axis) {
  std::optional<Toggles> bits = reversal_of(layout, axis);
  if (!bits || bits->contains(HwDim::Block)) return std::nullopt;
  if (!bits->contains(HwDim::Warp))
    return exchanged_in_warp(l, tile, (*bits)[HwDim::Register], (*bits)[HwDim::Lane]);
  const auto numbers = number_lanes_first(layout);
  if (!numbers || !layout.is_bijective()) return std::nullopt;
  const HardwareCoord thread{.lane = (*bits)[HwDim::Lane], .warp = (*bits)[HwDim::Warp]};
  return exchanged_in_memory(l, exchanged_in_warp(l, tile, (*bits)[HwDim::Register], 0), *numbers,
                             numbers->apply(thread)[0]);
}

/// Byte offset (i32) from the first element of the line; bounds are checked before narrowing.
struct ChosenOffset {
  Value bytes;
  Value is_inside;
  /// Padding registers, where `are_elements` is false, hold anything and choose the first element.
  ChosenOffset(Lowering& l, Value index, Value are_elements, std::int64_t extent,
               std::int64_t stride) {
    if (are_elements)
      index = l.b.select(are_elements, index, l.b.zero(Type::of(l.type(index).elem())));
    const Type scalar = Type::scalar(l.type(index).dtype());
    const Value last = l.b.constant(scalar, extent - 1),
                zero = l.b.constant(scalar, std::int64_t{0});
    const Value kept = l.b.op(Opcode::Min, {l.b.op(Opcode::Max, {index, zero}), last});
    is_inside = l.b.cmp("eq", index, kept);
    bytes = l.b.mul(l.b.cast(kept, DType::i32), l.b.i32(stride));
  }
};

}  // namespace

void lower_Gather(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const LinearLayout &from = layout_of(l.from.type(d.operands[0])),
                     &to = layout_of(l.from.type(d.results[0]));
  const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
  const Value tile = l.get(d.operands[0]), index = l.get(d.operands[1]);
  if (const auto lines = lines_in_registers(from, to, axis))
    return l.set(d.results[0], from_registers(l, tile, index, *lines, from, axis));
  if (from == to && is_reversal(l.from, d))
    if (const auto exchanged = reversed(l, tile, from, axis))
      return l.set(d.results[0], *exchanged);
  l.context.remark(Remark::Kind::Analysis, d.loc, "gathered through shared memory",
                   {{"tile", l.from.type(d.operands[0]).str()}});
  const Value stored = as_stored(l, tile);
  const Elem elem = l.type(stored).elem();
  const int bytes = size_bytes(elem.dtype);
  const Value base = l.scratch(linear_bytes(l, from.shape(), stored), 16);
  l.barrier();
  write_linear(l, base, from, stored);
  l.barrier();
  const LinearAddresses lines(l, base, to, from.shape(), ir::Dims::filled(to.rank(), 0), bytes,
                              axis);
  const ChosenOffset chosen(l, index, lines.are_elements, from.shape()[axis],
                            linear_stride(from.shape(), axis, bytes));
  const Value read = l.b.op(Opcode::LdShared, {l.b.add(lines.addresses, chosen.bytes)},
                            Type::vec(elem, to.registers()), {{AttrName::width, 1}});
  const Value inside = l.b.select(chosen.is_inside, read, zeros(l, elem, to.registers()));
  l.set(d.results[0], as_before(l, inside, l.type(tile).elem()));
}

namespace {

/// The operands of a scatter and their layouts.
struct Scatter {
  const LinearLayout &tile_layout, &layout;  ///< of the tile; of index and values
  Value tile, index, values;
  int axis;
  Scatter(Lowering& l, const OpData& d)
      : tile_layout(layout_of(l.from.type(d.operands[0]))),
        layout(layout_of(l.from.type(d.operands[1]))),
        tile(l.get(d.operands[0])),
        index(l.get(d.operands[1])),
        values(l.get(d.operands[2])),
        axis(static_cast<int>(d.attrs.i(AttrName::axis))) {}
};

/// Scatters by stores: writes the tile to shared memory, then the values over it, and reads it
/// back.
Value stored(Lowering& l, const Scatter& s) {
  const Value tile = as_stored(l, s.tile), values = as_stored(l, s.values);
  const Elem elem = l.type(tile).elem();
  const int bytes = size_bytes(elem.dtype);
  const ir::Dims &shape = s.tile_layout.shape(), origin = ir::Dims::filled(shape.size(), 0);
  const Value base = l.scratch(linear_bytes(l, shape, tile), 16);
  l.barrier();
  write_linear(l, base, s.tile_layout, tile);
  l.barrier();
  const LinearAddresses lines(l, base, s.layout, shape, origin, bytes, s.axis);
  const ChosenOffset chosen(l, s.index, lines.are_elements, shape[s.axis],
                            linear_stride(shape, s.axis, bytes));
  Value counts = l.and_predicates(chosen.is_inside, lines.are_elements);
  counts = l.and_predicates(counts, l.is_replica_zero(s.layout));
  l.b.effect(Opcode::StShared, {l.b.add(lines.addresses, chosen.bytes), values, counts},
             {{AttrName::width, 1}});
  l.barrier();
  const LinearAddresses at(l, base, s.tile_layout, shape, origin, bytes);
  const Value read = l.b.op(Opcode::LdShared, {at.addresses},
                            Type::vec(elem, s.tile_layout.registers()), {{AttrName::width, 1}});
  return as_before(l, read, l.type(s.tile).elem());
}

Opcode combining(std::string_view kind) {
  static const std::map<std::string_view, Opcode> kOps{
      {"add", Opcode::Add}, {"max", Opcode::Max}, {"min", Opcode::Min}, {"or", Opcode::Or}};
  return kOps.at(kind);
}

/// Scatters by a combining op: writes index and values to shared memory, and each element of the
/// tile scans its whole line for values that belong to it.
Value combined(Lowering& l, const Scatter& s, Opcode by) {
  const ir::Dims &shape = s.layout.shape(), origin = ir::Dims::filled(shape.size(), 0);
  const Elem elem = l.type(s.values).elem(), index_elem = l.type(s.index).elem();
  const int bytes = size_bytes(elem.dtype), index_bytes = size_bytes(index_elem.dtype);
  const std::int64_t indices_bytes = (linear_bytes(l, shape, s.index) + 15) / 16 * 16;
  const Value indices = l.scratch(indices_bytes + linear_bytes(l, shape, s.values), 16);
  const Value values = l.b.add(indices, l.b.i32(indices_bytes));
  l.barrier();
  write_linear(l, indices, s.layout, s.index);
  write_linear(l, values, s.layout, s.values);
  l.barrier();
  const LinearLayout& tile = s.tile_layout;
  const Value first_index =
      LinearAddresses(l, indices, tile, shape, origin, index_bytes, s.axis).addresses;
  const Value first_value =
      LinearAddresses(l, values, tile, shape, origin, bytes, s.axis).addresses;
  const Value own = l.b.cast(index_along(l, tile, s.axis), index_elem.dtype);
  const std::array inits{s.tile};
  const OpId loop = l.b.make_for(l.b.i32(0), l.b.i32(shape[s.axis]), l.b.i32(1), inits);
  const RegionId outer = l.b.region(), body = l.to[loop].regions[0];
  l.b.at_end(body);
  const Value i = l.to[body].args[0], before = l.to[body].args[1];
  const auto read = [&](Value first, Elem of, int size) {
    const Value step = l.b.mul(i, l.b.i32(linear_stride(shape, s.axis, size)));
    return l.b.op(Opcode::LdShared, {l.b.add(first, step)}, Type::vec(of, tile.registers()),
                  {{AttrName::width, 1}});
  };
  const Value index = read(first_index, index_elem, index_bytes);
  const Value value = read(first_value, elem, bytes);
  const Value is_named = l.b.cmp("eq", index, own);
  const std::array next{l.b.select(is_named, l.b.op(by, {before, value}), before)};
  l.b.yield(next);
  l.b.at_end(outer);
  return l.to[loop].results[0];
}

}  // namespace

void lower_Scatter(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const std::string_view kind = d.attrs.s(AttrName::kind);
  const Scatter s(l, d);
  l.set(d.results[0], kind == "store" ? stored(l, s) : combined(l, s, combining(kind)));
}

}  // namespace tegula::codegen
