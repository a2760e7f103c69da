#include "ir/passes/layouts/infer_operand_layout.h"

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"

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

/// Returns a layout with lanes and warps along the last dimensions, for elements that change
/// threads anyway.
LinearLayout any_layout(const Dims& shape, int warps) {
  Dims order;
  for (int d = shape.size() - 1; d >= 0; --d) order.push_back(d);
  return coalesced(shape, 1, warps, order);
}

}  // namespace

const LinearLayout* layout_before_reshape(Type operand, const LinearLayout& wanted) {
  const auto layout = reshape(wanted, dims_of(operand.shape()));
  return layout ? intern_layout(*layout) : nullptr;
}

const LinearLayout* infer_operand_layout(const Kernel& k, const OpData& d, Value operand,
                                         const LinearLayout& wanted) {
  using enum Opcode;
  const Type type = k.type(operand);
  if (d.opcode == ExpandDims)
    return intern_layout(slice(wanted, static_cast<int>(d.attrs.i(AttrName::axis))));
  if (d.opcode == Permute)
    return intern_layout(permute(wanted, inverse_order(d.attrs.ints(AttrName::order))));
  if (d.opcode == Broadcast)
    return intern_layout(before_broadcast(type, k.type(d.results[0]), wanted));
  if (d.opcode == Reshape) {
    if (const LinearLayout* layout = layout_before_reshape(type, wanted)) return layout;
    return intern_layout(any_layout(dims_of(type.shape()), wanted.size(HwDim::Warp)));
  }
  return intern_layout(wanted);
}

}  // namespace tegula::ir
