#pragma once
#include <string_view>

#include "ir/eval/number.h"

namespace tegula::ir::interp {

/// What an atomic op leaves of an element and a value; both are of `dtype`.
using Combine = Cell (*)(Cell old, Cell value, DType dtype);

/// By attr kind: add max min and or xor xchg.
Combine combine_of(std::string_view kind);

}  // namespace tegula::ir::interp
