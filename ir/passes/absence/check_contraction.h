#pragma once
// The check of contractions: both operands of a dot, or of a product that is summed, read the
// summed dimension at the same step or at the same fixed position, and one of the views ends
// earlier.
#include <string>

#include "ir/kernel.h"
#include "ir/passes/absence/tile_presence.h"

namespace tegula::ir {

/// Adds an assumption (kind "contraction") that the operands of the dot, or of the product that the
/// sum reduces, end together. It precedes the loop over the steps. Returns true if it added ops.
bool check_contraction(Kernel& k, TilePresence& presence, OpId op);

/// Returns the name of the parameter; "a view" for other views.
std::string view_name(const Kernel& k, Value view);

}  // namespace tegula::ir
