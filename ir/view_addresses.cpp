#include "ir/view_addresses.h"

#include <algorithm>

#include "ir/gathered_box.h"
#include "ir/made_view.h"

namespace tegula::ir {
namespace {

/// Returns the index along view dimension `v` of every element of the box: a scalar if its tile
/// does not extend along that dimension.
Value index_along(Builder& b, const OpData& op, Type tile, int v) {
  const Value first = op.operands[first_offset(op) + static_cast<std::size_t>(v)];
  const auto axes = op.attrs.ints(AttrName::axes);
  const bool is_index_tile = b.kernel().type(first).is_tile();
  const auto axis = is_index_tile ? gathered_dim(b.kernel(), op)
                                  : std::ranges::find(axes, std::int64_t{v}) - axes.begin();
  if (axis == std::ssize(axes)) return first;
  const DType dtype = b.kernel().type(first).dtype();
  Value at = first;
  if (!is_index_tile) {
    const std::int64_t extent = tile.shape()[static_cast<std::size_t>(axis)];
    const Type line = Type::tile({dtype, false}, std::span(&extent, 1));
    at = b.add(b.op(Opcode::Arange, {}, line, {{AttrName::start, 0}}), first);
  }
  for (int d = 0; d < tile.rank(); ++d)
    if (d != axis) at = b.op(Opcode::ExpandDims, {at}, {{AttrName::axis, d}});
  return tile.rank() == 1 ? at : b.op(Opcode::Broadcast, {at}, tile.with_dtype(dtype));
}

}  // namespace

ViewAddresses box_addresses(Builder& b, const OpData& op, Type tile) {
  // A view of rank 0 has no offset from which to take the index type.
  const std::size_t first = first_offset(op);
  const Type index = Type::scalar(
      op.operands.size() > first ? b.kernel().type(op.operands[first]).dtype() : DType::i32);
  return view_addresses(b, op.operands[0], index,
                        [&](int v) { return index_along(b, op, tile, v); });
}

ViewAddresses view_addresses(Builder& b, Value view, Type index_type,
                             const std::function<Value(int axis)>& index) {
  const Value zero = b.constant(index_type, std::int64_t{0});
  Value offset, inside;
  if (b.kernel().type(view).rank() == 0)
    return {b.op(Opcode::ViewPtr, {view}), b.constant(Type::scalar(DType::i1), std::int64_t{1})};
  for (int axis = 0; axis < b.kernel().type(view).rank(); ++axis) {
    const Value at = index(axis),
                stride = b.op(Opcode::ViewStride, {view}, index_type, {{AttrName::axis, axis}}),
                extent = extent_of(b, view, axis, index_type), step = b.mul(at, stride),
                within = b.op(Opcode::And, {b.cmp("ge", at, zero), b.cmp("lt", at, extent)});
    offset = axis == 0 ? step : b.add(offset, step);
    inside = axis == 0 ? within : b.op(Opcode::And, {inside, within});
  }
  return {b.op(Opcode::AddPtr, {b.op(Opcode::ViewPtr, {view}), offset}), inside};
}

}  // namespace tegula::ir
