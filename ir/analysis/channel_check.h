#pragma once
// Static check of rings and channels: no deadlock, no slot overwritten before it is read, byte
// counts equal (DESIGN 4, "Plan").
#include <optional>
#include <string>

#include "ir/kernel.h"

namespace tegula::ir {

/// A fault of a kernel in machine form, at two ops.
struct ChannelFault {
  std::string what;
  OpId first, second;  ///< the second may be none
};

/// Follows the roles of the first program, or of the two of a cluster that share channels, for
/// extents of 0, 1, 2 and about as many steps as a ring has slots, over three turns of the loops
/// around. `with_producer`: a warp of its own copies, and groups of those that compute take tiles
/// in turn where they are to; else a thread of those that compute copies.
std::optional<ChannelFault> check_channels(const Kernel& machine, bool with_producer);

}  // namespace tegula::ir
