#pragma once
// Proves that a value is no NaN, or that a NaN does not matter.
#include "ir/kernel.h"

namespace tegula::ir {

/// A NaN in `v`, a maximum or minimum of numbers that may all be NaN, makes no difference from the
/// fold's identity: each user takes the same extreme of it and of what is never NaN.
bool loses_to_users(const Kernel& k, Value v, Opcode extreme);

}  // namespace tegula::ir
