#pragma once
#include "ir/kernel.h"

namespace tegula::dsl {

/// Removes dead code from a finished recording: unused loads and arithmetic, loop carries whose
/// result is never used, and such branch results.
void remove_dead(ir::Kernel& kernel);

}  // namespace tegula::dsl
