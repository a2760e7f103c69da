#pragma once
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true if an op can be erased when its results are unused: it does not write and has no
/// other effects.
inline bool is_removable(const OpInfo& row) {
  return (row.has(kPure) || row.has(kAllocates) || row.has(kReads)) && !row.has(kWrites) &&
         !row.has(kEffects);
}

/// Erases the pure op that defines `v` if the kernel's body does not use `v`, then likewise the ops
/// of its operands. Stops at dots, because the passes that pipeline them keep their ids.
void erase_unused(Kernel& k, Value v);

/// Erases the removable ones of `ops` whose results the kernel does not use, then those of `ops`
/// that only the erased ones used.
void erase_unused(Kernel& k, std::vector<OpId> ops);

}  // namespace tegula::ir
