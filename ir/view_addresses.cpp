#include "ir/view_addresses.h"

namespace tegula::ir {

ViewAddresses view_addresses(Builder& b, Value view, Type index_type,
                             const std::function<Value(int axis)>& index) {
  const Value zero = b.constant(index_type, std::int64_t{0});
  Value offset, inside;
  if (b.kernel().type(view).rank() == 0)
    return {b.op(Opcode::ViewPtr, {view}), b.constant(Type::scalar(DType::i1), std::int64_t{1})};
  for (int axis = 0; axis < b.kernel().type(view).rank(); ++axis) {
    const auto of_view = [&](Opcode opcode) {
      return b.op(opcode, {view}, index_type, {{AttrName::axis, axis}});
    };
    const Value at = index(axis), stride = of_view(Opcode::ViewStride),
                extent = of_view(Opcode::ViewDim), step = b.mul(at, stride),
                within = b.op(Opcode::And, {b.cmp("ge", at, zero), b.cmp("lt", at, extent)});
    offset = axis == 0 ? step : b.add(offset, step);
    inside = axis == 0 ? within : b.op(Opcode::And, {inside, within});
  }
  return {b.op(Opcode::AddPtr, {b.op(Opcode::ViewPtr, {view}), offset}), inside};
}

}  // namespace tegula::ir
