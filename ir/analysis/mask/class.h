#pragma once
// The class of a mask: by the conditions that are solved for kv, and how the others depend on kv.
#include <span>
#include <vector>

#include "ir/analysis/mask/formula.h"

namespace tegula::ir {

/// The unsolvable rest of a condition on kv: the terms of a sum that depend on it, or a node that
/// is not taken apart.
using MaskUnsolved = std::vector<MaskNodeId>;

/// Sets what MaskClosedForm says of the class.
void classify_mask(MaskClosedForm& form, std::span<const MaskUnsolved> unsolved);

}  // namespace tegula::ir
