#pragma once
// Arg-reductions of tiles with absent elements.
#include "ir/passes/absence/absence.h"

namespace tegula::ir {

/// Fills the absent elements along the axis of an arg_reduce with a value that never wins, and
/// makes the resulting index that of a present element. Returns false if no element is absent.
bool fill_arg_reduce(Kernel& k, Absence& absence, OpId op);

}  // namespace tegula::ir
