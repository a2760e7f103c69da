#pragma once
// Tiles all of whose elements are one scalar by the way they are computed.
#include "ir/kernel.h"

namespace tegula::ir {

/// True for scalars, constants, splats, what elementwise ops make of these alone, and what shape
/// ops make of one of them. Choices by such a condition are of whole tiles.
bool is_uniform(const Kernel& k, Value v, int depth = 0);

}  // namespace tegula::ir
