#pragma once
// Proves that a value is not NaN, or that a NaN does not matter.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true if replacing a NaN in `v` by the fold's identity has no effect. `v` is a maximum or
/// minimum of numbers that may all be NaN, and each user must take the same extreme of `v` and of a
/// value that is never NaN.
bool loses_to_users(const Kernel& k, Value v, Opcode extreme);

}  // namespace tegula::ir
