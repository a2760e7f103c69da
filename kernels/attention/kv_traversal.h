#pragma once
// The traversal of the keys that attention takes under a mask, and the reason.
#include <optional>
#include <string>

#include "kernels/attention/kv_block_iterator.h"
#include "kernels/attention/query_rows.h"
#include "tegula/attention_tiles.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"

namespace tegula {

/// [batch, heads, length, head_dim] each.
struct AttentionTensors {
  const Tensor &Q, &K, &V, &O;
};

/// The tensors of a call as slots of its plan, in the layout that the kernel takes. `list` is the
/// caller's.
struct AttentionSlots {
  PlanSlot Q, K, V, O, lse, row_max, sinks, cu_q, cu_kv;
  BlockListSlots list;
};

class KvTraversal {
 public:
  explicit KvTraversal(const AttentionSpec& spec);

  /// True if the kernel runs over block lists.
  bool uses_block_list() const { return list_ || (derived_ && derived_->uses_block_list()); }
  /// True if the kv blocks of a tile are not consecutive.
  bool is_non_contiguous() const {
    return uses_block_list() || (derived_ && derived_->has_parts());
  }
  KvExtent kv_extent() const { return kv_extent_; }
  /// True if tensors, the caller, or an untraceable mask decide what a row attends to, which may
  /// not be in the first block.
  bool is_data_dependent() const { return depends_on_data_; }
  /// The blocks that a tile of queries visits where no list says it, in the kernel that is being
  /// traced.
  KvBlockIterator kv_blocks(const QueryRows& rows, const Tile& length, int block) const;
  /// The lists for a call, made on its stream where they are derived; nothing if it runs over a
  /// range of keys.
  std::optional<BlockListArgs> lists(const Stream& stream, const AttentionTensors& tensors,
                                     const AttentionTileShape& tiles,
                                     const QueryTileRows& rows) const;
  /// The same as launches of a plan, of whose slots `slots` the caller's list and the lengths are.
  std::optional<BlockListSlots> lists(PlanBuilder& plan, const AttentionSlots& slots,
                                      const AttentionTensors& tensors,
                                      const AttentionTileShape& tiles,
                                      const QueryTileRows& rows) const;
  /// One line: the traversal and the reason.
  const std::string& text() const { return text_; }
  /// Report, as Kernel::explain() gives it, on the kernels that make the lists.
  std::string explain() const { return derived_ ? derived_->explain() : ""; }

 private:
  std::optional<BlockList> list_;
  decltype(AttentionSpec::kv_range) range_;
  decltype(AttentionSpec::full_kv_range) full_;
  std::optional<BlockMask> derived_;
  bool depends_on_data_ = false;
  KvExtent kv_extent_ = KvExtent::unknown;
  std::string text_;
};

}  // namespace tegula
