#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Writes every dot of a kernel in tile form as the transpose of the dot of its transposed
/// operands. Returns false, and changes nothing, unless each dot adds to an accumulator that a loop
/// carries and that nothing else in the loop reads.
bool swap_ab(Kernel& k);

}  // namespace tegula::ir
