#pragma once
// Determines the class of a mask from the conditions that are solved for kv and from how the other
// conditions depend on kv.
#include <span>
#include <vector>

#include "ir/analysis/mask/formula.h"

namespace tegula::ir {

/// The unsolved rest of a condition on kv: the terms of a sum that depend on kv, or a node that is
/// not decomposed.
using MaskUnsolved = std::vector<MaskNodeId>;

/// Sets the members of MaskClosedForm that describe its class.
void classify_mask(MaskClosedForm& form, std::span<const MaskUnsolved> unsolved);

}  // namespace tegula::ir
