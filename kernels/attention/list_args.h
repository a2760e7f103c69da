#pragma once
// Block lists as arguments of the attention kernel.
#include "tegula/block_mask.h"
#include "tegula/kernels/block_list.h"

namespace tegula {

/// Arguments that attention over `Q` [batch, heads, length, head_dim] takes from a caller's list.
/// Throws CompileError if it does not fit.
BlockListArgs list_args(const BlockList& list, const Tensor& Q);

/// Tile sizes that attention has no kernel for are a CompileError.
void check_blocks(const BlockList& list);

}  // namespace tegula
