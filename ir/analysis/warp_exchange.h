#pragma once
// Ops whose elements change warps.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true if the lowering of a conversion or a reduction moves elements between warps through
/// shared memory, for which all threads synchronise. A result that nothing uses must be left out.
bool exchanges_between_warps(const Kernel& k, const OpData& d);

}  // namespace tegula::ir
