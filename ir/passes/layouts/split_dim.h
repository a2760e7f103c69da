#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Marks a value that is not split although others are: every CTA uses all of it.
inline constexpr int kNotSplit = -1;

/// The dimension of operand `v` that dimension `dim` is of the result of an elementwise op, or of
/// one that repeats, inserts or permutes dimensions; kWhole where the operand has none such.
int dim_of_operand(const Kernel& k, const OpData& d, Value v, int dim);

}  // namespace tegula::ir
