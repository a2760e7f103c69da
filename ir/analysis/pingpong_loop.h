#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the tile loop of a ping-pong kernel, in which each warpgroup computes every second tile,
/// or none if all warps compute a tile together.
OpId pingpong_loop(const Kernel& k);

}  // namespace tegula::ir
