#pragma once
// Results of atomic operations, for the interpreter and the simulator.
#include <string_view>

#include "ir/eval/number.h"

namespace tegula::ir::interp {

/// Returns the new element of an atomic op from the old element and a value; both are of `dtype`.
using Combine = Cell (*)(Cell old, Cell value, DType dtype);

/// Returns the function of an attr kind: add max min and or xor xchg, or inc, which counts up to
/// the value and then restarts at 0. Throws InternalError for another kind.
Combine combine_of(std::string_view kind);

}  // namespace tegula::ir::interp
