#pragma once
// Views of memory at an address, created by a make_view in the kernel: base, extents and strides
// are its operands.
#include "ir/builder.h"

namespace tegula::ir {

/// Returns the make_view of a view; none for a parameter.
OpId maker_of(const Kernel& k, Value view);

/// Return the operand of a make_view that is the extent, or the stride, of a dimension.
Value made_extent(const Kernel& k, OpId make, int axis);
Value made_stride(const Kernel& k, OpId make, int axis);

/// Returns the result type of a make_view with these operands and this promised alignment (attr
/// align; 0: none). Constants become static facts; divisors are those that index_facts.h finds.
Type made_view_type(const Kernel& k, std::span<const Value> operands, std::int64_t align);

/// Returns the extent of a view in the index type `type`: the operand of its make_view if that has
/// the type, else a new view_dim.
Value extent_of(Builder& b, Value view, int axis, Type type);

/// Returns true if the value is the operand of the view's make_view for that extent, or its
/// view_dim.
bool is_extent_of(const Kernel& k, Value value, Value view, int axis);

/// Returns true if different elements of a view are at different addresses; the strides of a made
/// view may let them overlap.
bool has_distinct_elements(const Kernel& k, Value view);

}  // namespace tegula::ir
