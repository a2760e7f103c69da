#pragma once
// Block lists of the heads of a group, merged so that one loop visits the blocks of all of them.
#include <optional>

#include "kernels/attention/kv_block_iterator.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

struct GroupListsParams {
  BlockListParams given;  ///< lists of all query heads
  /// Results, [batch, kv heads, rows, capacity] and [batch, kv heads, rows]. Partial blocks are at
  /// the end of a row in reverse order. Entry (g << log2_blocks) + j is block j of head g of the
  /// group.
  Out<i32, 4> blocks;
  Out<i32, 3> counts, full;
  bool two_ended;     ///< BlockListViews::two_ended of the given lists
  int block;          ///< queries of a block of the results
  Scalar<i32> parts;  ///< equal parts of a given block, each of which is a block of the results
  Scalar<i32> blocks_of_head, log2_blocks;  ///< entries are clamped to the blocks of a head
  /// Starts of the columns of packed sequences, whose blocks are then in windows (group_window).
  std::optional<In<i32, 1>> starts;
};
KernelOf<GroupListsParams> group_lists();

/// Returns the columns of sequence b, which begins at starts(b), in the lists of a group.
KvIndexWindow group_window(const Tile& b, const In<i32, 1>& starts, int block, const Tile& group);

}  // namespace tegula::kernels
