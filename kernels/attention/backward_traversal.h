#pragma once
// The blocks that a tile of the backward pass visits. A tile of keys visits blocks of queries: the
// mask's analysis with the roles of query and key exchanged.
#include <optional>
#include <string>

#include "kernels/attention/kv_block_iterator.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"

namespace tegula::kernels {

class BackwardTraversal {
 public:
  /// `rows`: what tiles consist of; they visit blocks of the other.
  BackwardTraversal(const AttentionSpec& spec, BlockListRows rows);

  bool uses_block_list() const { return mask_ && mask_->uses_block_list(); }
  /// Returns true if only evaluating the mask for each pair tells which blocks are empty.
  bool is_unsolved() const { return mask_ && mask_->is_unsolved(); }
  /// Returns, within the kernel that is being traced, the blocks of `length` columns that pairs of
  /// a row of [first, last] may be in. They begin at multiples of `block`. Query i is at position
  /// i + `shift` of the keys.
  KvBlockIterator blocks(const Tile& first, const Tile& last, const Tile& length, const Tile& shift,
                         int block) const;
  /// Returns the lists of a call as launches of its plan. `rows` and `columns` are [batch, heads,
  /// length, head dim]. `lengths` are those of packed sequences, with rows in place of queries;
  /// the last parameters are their slots.
  std::optional<BlockListSlots> lists(PlanBuilder& plan, const Tensor& rows, const Tensor& columns,
                                      BlockShape block, const CuSeqlens& lengths,
                                      PlanSlot starts_of_rows, PlanSlot starts_of_columns) const;
  /// Returns one line that states the traversal and the reason.
  std::string text() const { return mask_ ? mask_->text() : "all, without a mask"; }
  /// Returns a report, like Kernel::explain(), on the kernels that compute the lists.
  std::string explain() const { return mask_ ? mask_->explain() : ""; }

 private:
  bool rows_are_queries_;
  std::optional<BlockMask> mask_;
};

}  // namespace tegula::kernels
