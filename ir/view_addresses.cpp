#include "ir/view_addresses.h"

#include "ir/access.h"
#include "ir/made_view.h"

namespace tegula::ir {
namespace {

/// Returns the index along an axis of every element of the box: a scalar if its tile does not
/// extend along the axis.
Value index_along(Builder& b, const BoxAccess& a, const AccessAxis& axis) {
  if (axis.kind == AccessAxis::Kind::Scalar) return axis.offset;
  const DType dtype = b.kernel().type(axis.offset).dtype();
  const int dim = axis.is_gathered() ? a.gathered_dim() : axis.tile_dim;
  Value at = axis.offset;
  if (!axis.is_gathered()) {
    const Type line = Type::tile({dtype, false}, std::span(&axis.extent, 1));
    at = b.add(b.op(Opcode::Arange, {}, line, {{AttrName::start, 0}}), at);
  }
  for (int d = 0; d < a.tile.rank(); ++d)
    if (d != dim) at = b.op(Opcode::ExpandDims, {at}, {{AttrName::axis, d}});
  return a.tile.rank() == 1 ? at : b.op(Opcode::Broadcast, {at}, a.tile.with_dtype(dtype));
}

}  // namespace

ViewAddresses box_addresses(Builder& b, const BoxAccess& a) {
  // A view of rank 0 has no offset from which to take the index type.
  const Type index =
      Type::scalar(a.axes.empty() ? DType::i32 : b.kernel().type(a.axes[0].offset).dtype());
  return view_addresses(b, a.view, index, [&](int v) {
    return index_along(b, a, a.axes[static_cast<std::size_t>(v)]);
  });
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
