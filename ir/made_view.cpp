#include "ir/made_view.h"

#include <algorithm>
#include <numeric>

#include "ir/analysis/index_facts.h"

namespace tegula::ir {
namespace {

/// Returns the extent without the lower bound of 0 that the tracer adds.
Value without_floor(const Kernel& k, Value extent) {
  const OpId def = k[extent].def;
  const bool is_floor = def && k[def].opcode == Opcode::Max && is_zero(k, k[def].operands[1]);
  return is_floor ? k[def].operands[0] : extent;
}

}  // namespace

OpId maker_of(const Kernel& k, Value view) {
  const OpId def = k[view].def;
  return def && k[def].opcode == Opcode::MakeView ? def : OpId();
}

Value made_extent(const Kernel& k, OpId make, int axis) {
  return k[make].operands[1 + static_cast<std::size_t>(axis)];
}

Value made_stride(const Kernel& k, OpId make, int axis) {
  const std::size_t rank = k[make].operands.size() / 2;
  return k[make].operands[1 + rank + static_cast<std::size_t>(axis)];
}

Type made_view_type(const Kernel& k, std::span<const Value> operands, std::int64_t align) {
  const DType dtype = k.type(operands[0]).dtype();
  const std::size_t rank = operands.size() / 2;
  const std::int64_t size = size_bytes(dtype);
  ViewFacts facts;
  facts.access = Access::InOut;
  facts.is_made = true;
  facts.align = std::max(align, size);
  Ints shape;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const Value extent = without_floor(k, operands[1 + axis]), stride = operands[1 + rank + axis];
    const auto extent_number = constant_value(k, extent), stride_number = constant_value(k, stride);
    shape.push_back(extent_number ? std::max<std::int64_t>(*extent_number, 0) : kDynamic);
    facts.strides.push_back(stride_number && *stride_number >= 0 ? *stride_number : kDynamic);
    facts.dim_div.push_back(std::max<std::int64_t>(1, divisor_of(k, extent)));
    const std::int64_t known = std::max<std::int64_t>(1, divisor_of(k, stride));
    facts.stride_div.push_back(std::lcm(known, facts.align / size));
  }
  return Type::view(dtype, shape, std::move(facts));
}

Value extent_of(Builder& b, Value view, int axis, Type type) {
  const Kernel& k = b.kernel();
  if (const OpId make = maker_of(k, view))
    if (const Value extent = made_extent(k, make, axis); k.type(extent) == type) return extent;
  return b.op(Opcode::ViewDim, {view}, type, {{AttrName::axis, axis}});
}

bool is_extent_of(const Kernel& k, Value value, Value view, int axis) {
  if (const OpId make = maker_of(k, view); make && made_extent(k, make, axis) == value) return true;
  const OpId def = k[value].def;
  return def && k[def].is(Opcode::ViewDim) && k[def].operands[0] == view &&
         k[def].attrs.i(AttrName::axis) == axis;
}

bool has_distinct_elements(const Kernel& k, Value view) {
  const OpId make = maker_of(k, view);
  if (!make) return true;
  const ViewFacts& facts = k.type(view).view_facts();
  return facts.strides.size() == 1 && facts.strides[0] > 0;
}

}  // namespace tegula::ir
