#pragma once
// The blocks of queries that a tile of keys visits: the mask's analysis with the roles of query and
// key exchanged.
#include <optional>
#include <string>

#include "kernels/attention/kv_block_iterator.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"

namespace tegula::kernels {

class QueryTraversal {
 public:
  explicit QueryTraversal(const AttentionSpec& spec);

  bool uses_block_list() const { return mask_ && mask_->uses_block_list(); }
  /// Returns true if only evaluating the mask for each pair tells which blocks are empty.
  bool is_unsolved() const { return mask_ && mask_->is_unsolved(); }
  /// Returns, within the kernel that is being traced, the blocks that may see a key of
  /// [first, last]. They begin at multiples of `block`. Query i is at position i + `shift` of the
  /// keys.
  KvBlockIterator blocks(const Tile& first, const Tile& last, const Tile& seqlen_q,
                         const Tile& shift, int block) const;
  /// Returns the lists of a call as launches of its plan. `by_head` is [batch, heads, keys, head
  /// dim]. `lengths` are those of packed sequences, with keys in place of queries; `keys` and
  /// `queries` are their slots.
  std::optional<BlockListSlots> lists(PlanBuilder& plan, const Tensor& by_head, const Tensor& Q,
                                      BlockShape block, const CuSeqlens& lengths, PlanSlot keys,
                                      PlanSlot queries) const;
  /// Returns one line that states the traversal and the reason.
  std::string text() const { return mask_ ? mask_->text() : "all, without a mask"; }
  /// Returns a report, like Kernel::explain(), on the kernels that compute the lists.
  std::string explain() const { return mask_ ? mask_->explain() : ""; }

 private:
  std::optional<BlockMask> mask_;
};

}  // namespace tegula::kernels
