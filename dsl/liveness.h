#pragma once
#include "ir/kernel.h"

namespace tegula::dsl {

/// Removes dead code from a finished recording: unused loads and arithmetic, and loop carries and
/// branch results that are never used.
void remove_dead(ir::Kernel& kernel);

}  // namespace tegula::dsl
