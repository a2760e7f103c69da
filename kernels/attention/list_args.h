#pragma once
// Block lists as arguments of the attention kernel.
#include "tegula/kernels/block_list.h"

namespace tegula {

/// [batch, heads, query tiles, capacity], and [batch, heads, query tiles] otherwise. Without `full`
/// every block needs the mask.
struct ListArgs {
  Tensor blocks, counts, full;
  /// Each head's tiles, those that visit most blocks first; undefined: as the kernel likes.
  Tensor order = {};
};

/// What attention over `Q` [batch, heads, length, head_dim] takes of a caller's list. Throws
/// CompileError where it does not fit.
ListArgs list_args(const BlockList& list, const Tensor& Q);

/// Tile sizes that attention has no kernel for are a CompileError.
void check_blocks(const BlockList& list);

}  // namespace tegula
