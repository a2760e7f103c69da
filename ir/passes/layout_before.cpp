#include "ir/passes/layout_before.h"

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

Dims inverse_order(std::span<const std::int64_t> order) {
  Dims inverse = Dims::filled(static_cast<int>(order.size()), 0);
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<int>(order[i])] = static_cast<int>(i);
  return inverse;
}

LinearLayout before_broadcast(Type narrow, Type wide, LinearLayout layout) {
  for (int dim = 0; dim < narrow.rank(); ++dim)
    if (narrow.shape()[static_cast<std::size_t>(dim)] !=
        wide.shape()[static_cast<std::size_t>(dim)])
      layout = expand_dim(slice(layout, dim), dim);
  return layout;
}

LinearLayout before_reshape(Type operand, const LinearLayout& wanted) {
  Dims shape;
  for (std::int64_t extent : operand.shape()) shape.push_back(static_cast<int>(extent));
  const auto layout = reshape(wanted, shape);
  if (!layout) throw InternalError("reshape: " + layout.reason());
  return *layout;
}

}  // namespace

const LinearLayout* layout_before(const Kernel& k, const OpData& d, Value operand,
                                  const LinearLayout& wanted) {
  using enum Opcode;
  const Type type = k.type(operand);
  if (d.opcode == ExpandDims)
    return intern_layout(slice(wanted, static_cast<int>(d.attrs.i(AttrName::axis))));
  if (d.opcode == Permute)
    return intern_layout(permute(wanted, inverse_order(d.attrs.ints(AttrName::order))));
  if (d.opcode == Broadcast)
    return intern_layout(before_broadcast(type, k.type(d.results[0]), wanted));
  if (d.opcode == Reshape) return intern_layout(before_reshape(type, wanted));
  return intern_layout(wanted);
}

}  // namespace tegula::ir
