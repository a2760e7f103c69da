#pragma once
#include "ir/kernel.h"

namespace tegula::dsl {

/// Takes out of a finished recording what nothing depends on: unused loads and arithmetic, loop
/// carries whose result is never looked at, branch results likewise.
void remove_dead(ir::Kernel& kernel);

}  // namespace tegula::dsl
