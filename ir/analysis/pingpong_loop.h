#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// The tile loop of a ping-pong kernel, whose warpgroups take every second tile; none if all warps
/// compute a tile together.
OpId pingpong_loop(const Kernel& k);

}  // namespace tegula::ir
