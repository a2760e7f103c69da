#pragma once
// Views of memory at an address, which a make_view of the kernel makes: base, extents and strides
// are operands.
#include "ir/builder.h"

namespace tegula::ir {

/// The make_view of a view; none for a parameter.
OpId maker_of(const Kernel& k, Value view);

/// Operands of a make_view: the extent and the stride of a dimension.
Value made_extent(const Kernel& k, OpId make, int axis);
Value made_stride(const Kernel& k, OpId make, int axis);

/// The type that operands and promise (attr align; 0: none) of a make_view give its result:
/// constants as such, divisors as index_facts.h finds them.
Type made_view_type(const Kernel& k, std::span<const Value> operands, std::int64_t align);

/// The extent of a view, in the index type of who asks: an operand of its make_view if that has the
/// type, or a view_dim.
Value extent_of(Builder& b, Value view, int axis, Type type);

/// Whether different elements of a view are different memory: strides of a made view may let them
/// overlap.
bool has_distinct_elements(const Kernel& k, Value view);

}  // namespace tegula::ir
