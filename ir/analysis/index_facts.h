#pragma once
// Facts about index values that follow from their definitions alone, such as divisors. Does not
// modify the kernel.
#include <optional>

#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the integer value if it is a constant.
std::optional<std::int64_t> constant_value(const Kernel& k, Value v);

/// Returns true if `type` can represent every number of the integer type `of`.
bool holds_all_of(DType type, DType of);

/// Returns true for the constant 0 of any type.
bool is_zero(const Kernel& k, Value v);

/// Returns the largest known divisor of an integer value, or 0 for the constant 0, which every
/// number divides.
std::int64_t divisor_of(const Kernel& k, Value v);

/// Return a number that divides the extent, or the stride, of a view's dimension: the extent or
/// stride itself if it is fixed.
std::int64_t extent_divisor(Type view, std::size_t axis);
std::int64_t stride_divisor(Type view, std::size_t axis);

/// Returns true if both values are computed by equal pure ops from the same values.
bool is_same(const Kernel& k, Value a, Value b, int depth = 0);

/// Returns true if the value is the same in all CTAs of a cluster.
bool is_cluster_uniform(const Kernel& k, Value v, int depth = 0);

}  // namespace tegula::ir
