#pragma once
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Takes away the pure op of a value that nothing in the kernel's body needs, and then those whose
/// values only it needed, up to products: passes that pipeline them hold on to them.
void erase_unused(Kernel& k, Value v);

/// Erases those of `ops` that are pure and whose results nothing in the kernel uses, and then those
/// among them that were for these only.
void erase_unused(Kernel& k, std::vector<OpId> ops);

}  // namespace tegula::ir
