#pragma once
// Crops that clear lines of a dot's operand. They stay in the program: the threads store zeros to
// the operand's slot in shared memory, and only where there are such lines.
#include "ir/passes/absence/absence.h"

namespace tegula::ir {

/// Returns true if the crop fills lines of a box with zeros for dots that sum along its axis, and
/// the box has no other use.
bool clears_operand(const Kernel& k, const Absence& absence, OpId crop);

}  // namespace tegula::ir
