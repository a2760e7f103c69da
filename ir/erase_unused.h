#pragma once
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Whether an op may go where nothing needs its results: it writes nothing and has no effect.
inline bool is_removable(const OpInfo& row) {
  return (row.has(kPure) || row.has(kAllocates) || row.has(kReads)) && !row.has(kWrites) &&
         !row.has(kEffects);
}

/// Takes away the pure op of a value that nothing in the kernel's body needs, and then those whose
/// values only it needed, up to products: passes that pipeline them hold on to them.
void erase_unused(Kernel& k, Value v);

/// Erases those of `ops` that may go and whose results nothing in the kernel uses, and then those
/// among them that were for these only.
void erase_unused(Kernel& k, std::vector<OpId> ops);

}  // namespace tegula::ir
