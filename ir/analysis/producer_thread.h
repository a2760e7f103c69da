#pragma once
// Branches of the producer thread, the single thread of a CTA that issues its TMA loads.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true for the producer thread's flag, alone or combined with other conditions.
bool is_producer_condition(const Kernel& k, Value condition);

}  // namespace tegula::ir
