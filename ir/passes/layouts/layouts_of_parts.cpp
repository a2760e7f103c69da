// Layouts of ops that slice or concatenate tiles, or select elements by an index. Layouts in which
// each thread needs only its own registers are preferred; if there are none, the elements go
// through shared memory and any layout is possible.
#include <algorithm>

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/passes/layouts/layout_assignment.h"
#include "ir/passes/layouts/part_layouts.h"

namespace tegula::ir {

bool LayoutAssignment::is_of_parts(const OpData& d) {
  return d.is(Opcode::TileSlice, Opcode::TileConcat, Opcode::Gather, Opcode::Scatter);
}

/// Returns the layout of a value, also of a free one that expands a value with a layout.
const LinearLayout* LayoutAssignment::of_expanded(Value v) const {
  const LinearLayout* own = of(v);
  const OpId def = k_[v].def;
  if (own || !def || k_[def].opcode != Opcode::ExpandDims) return own;
  const LinearLayout* inner = of(k_[def].operands[0]);
  return inner
             ? intern_layout(expand_dim(*inner, static_cast<int>(k_[def].attrs.i(AttrName::axis))))
             : nullptr;
}

const LinearLayout* LayoutAssignment::own_or_standard(Value v) const {
  const LinearLayout* own = of_expanded(v);
  return own ? own : standard(k_.type(v));
}

/// Parts of equal extents, such as those of a join, stay in their threads.
const LinearLayout* LayoutAssignment::of_concat(const OpData& d) const {
  const Type first = k_.type(d.operands[0]);
  const LinearLayout* known = nullptr;
  for (Value v : d.operands)
    if (!known) known = of_expanded(v);
  const bool are_equal = std::ranges::all_of(
      d.operands, [&](Value v) { return std::ranges::equal(k_.type(v).shape(), first.shape()); });
  const LinearLayout* stacked =
      known && are_equal ? concat_layout(*known, static_cast<int>(d.attrs.i(AttrName::axis)),
                                         static_cast<int>(d.operands.size()))
                         : nullptr;
  return known && !stacked ? standard(k_.type(d.results[0])) : stacked;
}

/// The result has the layout of its index. If the index is free, single elements stay in the
/// threads that hold their lines.
const LinearLayout* LayoutAssignment::of_gather(const OpData& d) const {
  if (const LinearLayout* own = of(d.operands[1])) return own;
  const LinearLayout* tile = of_expanded(d.operands[0]);
  if (!tile) return nullptr;
  const auto axis = static_cast<std::size_t>(d.attrs.i(AttrName::axis));
  const auto from = k_.type(d.operands[0]).shape(), to = k_.type(d.operands[1]).shape();
  if (from[axis] == to[axis]) return tile;
  return to[axis] == 1 ? element_layout(*tile, static_cast<int>(axis))
                       : standard(k_.type(d.results[0]));
}

/// A line of constants into which elements are scattered is read from shared memory lane by lane.
/// This avoids bank conflicts, and the stores of single elements by a warp are adjacent.
const LinearLayout* LayoutAssignment::of_scatter(const OpData& d) const {
  const OpId base = k_[d.operands[0]].def;
  const bool is_new_line =
      k_.type(d.operands[0]).rank() == 1 && base && k_[base].opcode == Opcode::Const;
  return is_new_line ? by_lanes(k_.type(d.operands[0])) : of_expanded(d.operands[0]);
}

/// Returns null while the operands may still get a layout.
const LinearLayout* LayoutAssignment::of_parts(const OpData& d) const {
  const LinearLayout* layout = nullptr;
  if (d.opcode == Opcode::TileConcat) layout = of_concat(d);
  if (d.opcode == Opcode::Gather) layout = of_gather(d);
  if (d.opcode == Opcode::Scatter) layout = of_scatter(d);
  if (const LinearLayout* own = of_expanded(d.operands[0]); own && d.opcode == Opcode::TileSlice) {
    layout = box_layout(*own, d.attrs.ints(AttrName::offsets), k_.type(d.results[0]).shape());
    if (!layout) return standard(k_.type(d.results[0]));
  }
  return layout || !accumulators_have_layouts_ ? layout : standard(k_.type(d.results[0]));
}

const LinearLayout* LayoutAssignment::part_operand(const OpData& d, std::size_t i) const {
  const LinearLayout* result = of(d.results[0]);
  if (d.opcode == Opcode::TileConcat) {
    const auto axis = static_cast<std::size_t>(d.attrs.i(AttrName::axis));
    const auto shape = k_.type(d.operands[i]).shape();
    Ints offsets(shape.size(), 0);
    for (std::size_t before = 0; before < i; ++before)
      offsets[axis] += k_.type(d.operands[before]).shape()[axis];
    if (const LinearLayout* box = box_layout(*result, offsets, shape)) return box;
  }
  if ((d.opcode == Opcode::Gather && i == 1) || (d.opcode == Opcode::Scatter && i == 0))
    return result;
  if (d.opcode != Opcode::Scatter) return own_or_standard(d.operands[i]);
  const LinearLayout* values = of(d.operands[2]);
  return values ? values : own_or_standard(d.operands[1]);
}

}  // namespace tegula::ir
