#pragma once
// Block lists of the heads of a group, merged so that one loop visits the blocks of all of them.
#include <optional>

#include "kernels/attention/kv_block_iterator.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Outputs, [batch, kv heads, rows, capacity] and [batch, kv heads, rows]. Partial blocks are at
/// the end of a row in reverse order. Entry (g << log2_blocks) + j is block j of head g of the
/// group.
struct GroupLists {
  Out<i32, 4> blocks;
  Out<i32, 3> counts, full;
};

/// How the given lists are stored, and how their blocks are divided.
struct GivenLists {
  bool two_ended;     ///< BlockListViews::two_ended
  int block;          ///< queries of a block of the results
  Scalar<i32> parts;  ///< equal parts of a listed block, each of which is a block of the results
  Scalar<i32> blocks, log2_blocks;  ///< blocks of a head, to which entries are clamped
};

/// The first parameter has lists of all query heads, the last one the starts of the columns of
/// packed sequences, whose blocks are then in windows (group_window).
using GroupListsKernel =
    KernelOf<BlockListParams, GroupLists, GivenLists, std::optional<In<i32, 1>>>;
GroupListsKernel group_lists();

/// Returns the columns of sequence b, which begins at starts(b), in the lists of a group.
KvIndexWindow group_window(const Tile& b, const In<i32, 1>& starts, int block, const Tile& group);

}  // namespace tegula::kernels
