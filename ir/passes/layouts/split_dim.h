#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Marks a value that is not split although others are: every CTA uses all of it.
inline constexpr int kNotSplit = -1;

/// Returns the dimension of operand `v` that corresponds to dimension `dim` of the result of an
/// elementwise op, or of one that repeats, inserts or permutes dimensions; kNotSplit if there is
/// none.
int dim_of_operand(const Kernel& k, const OpData& d, Value v, int dim);

}  // namespace tegula::ir
