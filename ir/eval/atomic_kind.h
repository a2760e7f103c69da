#pragma once
// Results of atomic operations, for the interpreter and the simulator.
#include <string_view>

#include "ir/eval/number.h"

namespace tegula::ir::interp {

/// New element of an atomic op from the old element and a value; both are of `dtype`.
using Combine = Cell (*)(Cell old, Cell value, DType dtype);

/// By attr kind: add max min and or xor xchg, and inc, which counts up to the value and begins
/// again at 0. Throws CompileError for another one.
Combine combine_of(std::string_view kind);

}  // namespace tegula::ir::interp
