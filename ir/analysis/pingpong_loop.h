#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// The loop over tiles that warpgroups take in turn, the first one every second tile from the
/// first on (plan.alternate); none where all warps compute a tile together.
OpId pingpong_loop(const Kernel& k);

}  // namespace tegula::ir
