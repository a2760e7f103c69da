// A flip exchanges elements whose row-major indices differ in fixed bits. It is free if registers
// hold all of these bits, a shuffle if lanes do, and an exchange through shared memory if warps do.
// A conversion is such an exchange, too, but one conversion serves as many flips as registers have
// bits.
#include "ir/passes/layouts/flip_layouts.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/analysis/reversal.h"
#include "ir/layout/layout_ops.h"

namespace tegula::ir {
namespace {

/// Costs per element, in words that cross the pipe to shared memory. An exchange and a conversion
/// write and read one word each, and synchronize all warps.
constexpr int kShuffle = 1;
constexpr int kExchange = 3;

struct Flip {
  Value tile;
  BitVector bits;  ///< of the elements' row-major indices
};

/// Returns the flip among the users of the tile; nothing if an extent is not a power of two.
std::optional<OpId> flip_of(const Kernel& k, const Uses& uses, Value tile) {
  const auto has_bits = [](std::int64_t extent) {
    return std::has_single_bit(static_cast<std::uint64_t>(extent));
  };
  if (!std::ranges::all_of(k.type(tile).shape(), has_bits)) return std::nullopt;
  for (const Uses::Use& use : uses.of(tile))
    if (k[use.op].opcode == Opcode::Gather && use.operand == 0 && is_reversal(k, k[use.op]))
      return use.op;
  return std::nullopt;
}

BitVector flipped_bits(const Kernel& k, OpId flip) {
  const auto shape = k.type(k[flip].operands[0]).shape();
  const auto axis = static_cast<std::size_t>(k[flip].attrs.i(AttrName::axis));
  std::int64_t stride = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) stride *= shape[d];
  return static_cast<BitVector>((shape[axis] - 1) * stride);
}

/// Returns the result of the only user of the value if that op keeps the elements in their places,
/// else null.
Value next_of(const Kernel& k, const Uses& uses, Value v) {
  const auto use = uses.only(v);
  if (!use) return {};
  const OpData& d = k[use->op];
  const bool keeps_elements =
      d.opcode == Opcode::Reshape || info(d.opcode).family == Family::Elementwise;
  return keeps_elements && d.parent == k[k[v].def].parent ? d.results[0] : Value();
}

/// Returns the flips in the chain of ops from a tile; adds the tiles that it reaches to `passed`.
std::vector<Flip> flips_from(const Kernel& k, const Uses& uses, Value first,
                             std::vector<Value>& passed) {
  std::vector<Flip> flips;
  for (Value current = first; current;) {
    passed.push_back(current);
    const auto flip = flip_of(k, uses, current);
    if (flip && k[k[current].def].opcode != Opcode::Reshape) break;
    if (flip) flips.push_back({current, flipped_bits(k, *flip)});
    current = flip ? k[*flip].results[0] : next_of(k, uses, current);
  }
  return flips;
}

/// Returns the layout of the tile as one line, if each basis vector of registers, lanes and warps
/// is a single bit of the element index.
std::optional<LinearLayout> as_line(const LinearLayout& layout) {
  const auto line = reshape(layout, Dims{static_cast<int>(layout.shape().product())});
  if (!line || !line->is_bijective() || !line->is_exact() || !line->repeats().empty() ||
      line->in_bits(HwDim::Block) != 0)
    return std::nullopt;
  for (HwDim in : kIns)
    for (BitVector bit : line->packed_bases(in))
      if (!std::has_single_bit(bit)) return std::nullopt;
  return *line;
}

BitVector bits_in(const LinearLayout& line, HwDim in) {
  BitVector bits = 0;
  for (BitVector bit : line.packed_bases(in)) bits |= bit;
  return bits;
}

int cost_of(const LinearLayout& line, BitVector flipped) {
  if (flipped & bits_in(line, HwDim::Warp)) return kExchange;
  return flipped & bits_in(line, HwDim::Lane) ? kShuffle : 0;
}

/// Exchanges bits of registers with bits of lanes and warps, so that registers hold all of
/// `wanted`.
LinearLayout with_registers(const LinearLayout& line, BitVector wanted) {
  LayoutSpec spec = line.spec();
  const auto is_wanted = [&](const Dims& basis) { return (line.pack(basis) & wanted) != 0; };
  for (HwDim in : {HwDim::Lane, HwDim::Warp})
    for (Dims& place : spec.of(in))
      if (is_wanted(place))
        std::swap(place, *std::ranges::find_if_not(spec.of(HwDim::Register), is_wanted));
  return LinearLayout(spec);
}

/// Returns a layout whose registers hold the bits of as many flips as possible. The remaining
/// registers keep the bits that they hold in `home`, where a thread loads and stores neighbours
/// together.
LinearLayout layout_for(std::span<const Flip> flips, const LinearLayout& now,
                        const LinearLayout& home) {
  const int room = now.in_bits(HwDim::Register);
  BitVector wanted = 0, rest = 0;
  for (const Flip& flip : flips) rest |= flip.bits;
  if ((rest & ~bits_in(home, HwDim::Register)) == 0) return home;
  for (const Flip& flip : flips) {
    if (std::popcount(wanted | flip.bits) > room) break;
    wanted |= flip.bits;
  }
  for (BitVector bit : home.packed_bases(HwDim::Register))
    if (std::popcount(wanted) < room) wanted |= bit;
  return with_registers(now, wanted);
}

}  // namespace

std::unordered_map<Value, const LinearLayout*> flip_layouts(const Kernel& k, const Uses& uses,
                                                            Value first,
                                                            const LinearLayout& layout) {
  std::unordered_map<Value, const LinearLayout*> chosen;
  std::vector<Value> passed;
  const std::vector<Flip> flips = flips_from(k, uses, first, passed);
  for (const Flip& flip : flips) chosen[flip.tile] = nullptr;
  // No chain from one of these tiles has a flip, so none is followed again.
  if (flips.empty())
    for (Value tile : passed) chosen[tile] = nullptr;
  const auto home = as_line(layout);
  if (!home) return chosen;
  std::vector<LinearLayout> lines;
  LinearLayout line = *home;
  int without = 0, with = 0;
  for (std::size_t i = 0; i < flips.size(); ++i) {
    if (cost_of(line, flips[i].bits) != 0)
      if (LinearLayout next = layout_for(std::span(flips).subspan(i), line, *home); next != line) {
        line = std::move(next);
        with += kExchange;
      }
    with += cost_of(line, flips[i].bits);
    without += cost_of(*home, flips[i].bits);
    lines.push_back(line);
  }
  if (line != *home) with += kExchange;
  if (with >= without) return chosen;
  for (std::size_t i = 0; i < flips.size(); ++i) {
    Dims shape;
    for (std::int64_t extent : k.type(flips[i].tile).shape())
      shape.push_back(static_cast<int>(extent));
    if (const auto own = reshape(lines[i], shape)) chosen[flips[i].tile] = intern_layout(*own);
  }
  return chosen;
}

}  // namespace tegula::ir
