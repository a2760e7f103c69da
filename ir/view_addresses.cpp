#include "ir/view_addresses.h"

#include "ir/access.h"
#include "ir/lines.h"
#include "ir/made_view.h"

namespace tegula::ir {
namespace {

/// Returns the index along an axis of every element of the box: a scalar if its tile does not
/// extend along the axis.
Value index_along(Builder& b, const BoxAccess& a, const AccessAxis& axis) {
  if (axis.kind == AccessAxis::Kind::Scalar) return axis.offset;
  const DType dtype = b.kernel().type(axis.offset).dtype();
  const int dim = axis.is_gathered() ? a.gathered_dim() : axis.tile_dim;
  const Value position =
      axis.is_gathered() ? axis.offset : b.add(index_line(b, dtype, axis.extent), axis.offset);
  return repeated(b, position, dim, a.tile.shape());
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
    const Value position = index(axis),
                stride = b.op(Opcode::ViewStride, {view}, index_type, {{AttrName::axis, axis}}),
                extent = extent_of(b, view, axis, index_type), step = b.mul(position, stride),
                within =
                    b.op(Opcode::And, {b.cmp("ge", position, zero), b.cmp("lt", position, extent)});
    offset = axis == 0 ? step : b.add(offset, step);
    inside = both(b, inside, within);
  }
  return {b.op(Opcode::AddPtr, {b.op(Opcode::ViewPtr, {view}), offset}), inside};
}

}  // namespace tegula::ir
