#pragma once
// Places of extremes in tiles some of whose elements are absent.
#include "ir/passes/absence/absence.h"

namespace tegula::ir {

/// Gives the absent elements along the axis of an arg_reduce a value that never wins, and makes the
/// place that of an element which is there. False if none is absent.
bool fill_arg_reduce(Kernel& k, Absence& absence, OpId op);

}  // namespace tegula::ir
