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

/// Follows the roles of the first CTA, or of the two of a cluster that share channels, for extents
/// of 0, 1, 2 and about as many iterations as a ring has slots, over three trips of the outer
/// loops. `with_producer`: producer warps issue the loads, and consumer warpgroups take tiles
/// alternately in ping-pong kernels; else a consumer thread issues the loads.
std::optional<ChannelFault> check_channels(const Kernel& machine, bool with_producer);

}  // namespace tegula::ir
