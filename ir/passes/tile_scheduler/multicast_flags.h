#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Marks loads of mainloops that may read the same box for two neighbouring tiles (program_id and
/// its neighbour among num_programs), and computes before each such loop whether they do
/// (multicast_flags). Loops with iterations for only one of the two tiles run them for both.
void add_multicast_flags(Kernel& k);

}  // namespace tegula::ir
