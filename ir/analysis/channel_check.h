#pragma once
// Static check of rings and channels: no deadlock, no slot is overwritten before it is read, and
// the byte counts match.
#include <optional>
#include <string>

#include "ir/kernel.h"

namespace tegula::ir {

/// A fault in a kernel of machine form, with the two ops involved.
struct ChannelFault {
  std::string what;
  OpId first, second;  ///< `second` may be absent
};

/// Checks the roles of the first CTA, or of the two CTAs of a cluster that share channels. The
/// mainloop runs 0, 1 and 2 iterations and about the number of ring slots; outer loops run three
/// iterations (five tiles in ping-pong kernels). If `with_producer`, producer warps issue the
/// loads, and the consumer warpgroups of ping-pong kernels process tiles alternately; otherwise a
/// consumer thread issues the loads. Returns the first fault, or nothing.
std::optional<ChannelFault> check_channels(const Kernel& machine, bool with_producer);

}  // namespace tegula::ir
