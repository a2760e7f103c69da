#pragma once
// Branches of the producer thread, the one thread of a CTA that issues its TMA loads.
#include "ir/kernel.h"

namespace tegula::ir {

/// True for the producer thread's flag, alone or joined with other conditions.
bool is_producer_condition(const Kernel& k, Value condition);

}  // namespace tegula::ir
