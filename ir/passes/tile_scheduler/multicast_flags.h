#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Marks loads of mainloops that may be of the same box for two neighbouring tiles, program_id and
/// its neighbour of num_programs, and computes in front of each such loop whether they are
/// (multicast_flags). Loops that have trips for one of the two tiles get them for both.
void add_multicast_flags(Kernel& k);

}  // namespace tegula::ir
