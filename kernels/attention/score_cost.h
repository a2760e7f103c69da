#pragma once
// What a score function asks of registers.
#include "tegula/kernels/scores.h"

namespace tegula {

/// Whether the function needs registers of its own for each element of a block: it reads a tensor
/// at the key's position, or computes a function of many steps there. Traces it on its own, over
/// scalars; false where it cannot be.
bool is_costly(const Score& score);

}  // namespace tegula
