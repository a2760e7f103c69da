#pragma once
// Block lists as arguments of the attention kernel.
#include "tegula/block_mask.h"
#include "tegula/kernels/block_list.h"

namespace tegula {

/// Arguments that attention over `Q` [batch, heads, length, head_dim] takes from a caller's list.
/// Throws CompileError if it does not fit.
BlockListArgs list_args(const BlockList& list, const Tensor& Q);

/// The same for the slots of a plan that are the caller's list.
BlockListSlots list_slots(PlanBuilder& plan, const BlockList& list, const Tensor& Q,
                          const BlockListSlots& given);

/// Tile sizes that attention has no kernel for are a CompileError.
void check_blocks(const BlockList& list);

}  // namespace tegula
