#pragma once
// Block lists as arguments of the attention kernel.
#include "tegula/block_mask.h"
#include "tegula/kernels/block_list.h"

namespace tegula::kernels {

/// Returns the kernel arguments for a caller's list, in attention over `Q` [batch, heads, length,
/// head_dim]. Throws CompileError if the list does not match.
BlockListArgs list_args(const BlockList& list, const Tensor& Q);

/// The same, as plan slots derived from the slots of the caller's list.
BlockListSlots list_slots(PlanBuilder& plan, const BlockList& list, const Tensor& Q,
                          const BlockListSlots& given);

/// Throws CompileError for block sizes without an attention kernel.
void check_blocks(const BlockList& list);

}  // namespace tegula::kernels
