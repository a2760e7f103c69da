#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Writes every product of a kernel in tile form as the transpose of that of its transposed
/// operands. False, and nothing is changed, unless each product adds to a sum that a loop carries
/// and nothing else in the loop looks at.
bool swap_operands(Kernel& k);

}  // namespace tegula::ir
