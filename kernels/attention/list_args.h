#pragma once
// Block lists as arguments of the attention kernel.
#include "tegula/block_mask.h"
#include "tegula/kernels/block_list.h"

namespace tegula::kernels {

/// The rows that a list needs in a call.
struct ListedRows {
  const Tensor& Q;
  Dims extents;                ///< batch entries or sequences, heads, blocks of queries
  bool may_be_longer = false;  ///< further rows are ignored: tiles of the longest sequence
};

/// Returns the rows of a call with queries `Q` [batch, heads, length, head_dim].
ListedRows listed_rows(const BlockList& list, const Tensor& Q, const CuSeqlens& lengths);

/// Returns the kernel arguments for a caller's list. Throws CompileError if the list does not
/// match.
BlockListArgs list_args(const BlockList& list, const ListedRows& rows);

/// The same, as plan slots derived from the slots of the caller's list.
BlockListSlots list_slots(PlanBuilder& plan, const BlockList& list, const ListedRows& rows,
                          const BlockListSlots& given);

/// Throws CompileError if a kernel cannot write a list of a mask to the tensors of `list`: it needs
/// a row for all that the mask distinguishes, and room for `blocks` blocks.
void check_written(const BlockList& list, const ListedRows& rows, const MaskDependence& mask,
                   std::int64_t blocks);

/// Throws CompileError for block sizes without an attention kernel.
void check_blocks(const BlockList& list);

}  // namespace tegula::kernels
