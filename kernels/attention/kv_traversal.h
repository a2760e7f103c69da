#pragma once
// How attention iterates over the keys under a mask, and why.
#include <optional>
#include <string>

#include "kernels/attention/kv_block_iterator.h"
#include "kernels/attention/query_rows.h"
#include "tegula/attention_tiles.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"

namespace tegula::kernels {

/// Tensors [batch, heads, length, head_dim].
struct AttentionTensors {
  const Tensor &Q, &K, &V, &O;
};

/// The tensors of a call as slots of its plan, in the layout that the kernel reads. `list` is the
/// caller's block list.
struct AttentionSlots {
  PlanSlot Q, K, V, O, lse, row_max, sinks, cu_q, cu_kv, kv_lengths, table, work;
  BlockListSlots list;
};

/// Returns the rows of a box that TMA loads from a page for a block of keys, or 1 if threads copy
/// the rows, because boxes would have too few.
int rows_of_page_boxes(std::int64_t page_rows, int block_kv);

class KvTraversal {
 public:
  explicit KvTraversal(const AttentionSpec& spec);

  /// Returns true if the kernel iterates over block lists in every call.
  bool uses_block_list() const { return list_ || (derived_ && derived_->uses_block_list()); }
  /// Returns true if the kv blocks of a tile are not consecutive.
  bool is_non_contiguous() const {
    return uses_block_list() || (derived_ && derived_->has_parts());
  }
  /// Returns what the mask depends on if it decides about blocks of a list of the caller or of an
  /// evaluated list.
  const MaskDependence& listed() const { return listed_; }
  /// Returns what a mask depends on whose list can only be made by evaluating it for each pair, or
  /// nothing for other masks. Without the list, a call visits the range that is solved.
  std::optional<MaskDependence> evaluable() const {
    return derived_ && derived_->is_unsolved() ? std::optional(derived_->dependence())
                                               : std::nullopt;
  }
  KvExtent kv_extent() const { return kv_extent_; }
  /// Returns true if tensors, the caller, or an untraceable mask determine which keys a row attends
  /// to; the first block may contain none of them.
  bool is_data_dependent() const { return depends_on_data_; }
  /// Returns the blocks that a query tile visits in the absence of a list, within the kernel that
  /// is being traced.
  KvBlockIterator kv_blocks(const QueryRows& rows, const Tile& length, int block,
                            int first_key_divisor = 1) const;
  /// Returns the lists for a call, computed on its stream if they are derived, or nothing if the
  /// call visits a range of keys.
  std::optional<BlockListArgs> lists(const Stream& stream, const AttentionTensors& tensors,
                                     const AttentionTileShape& tiles,
                                     const QueryTileRows& rows) const;
  /// Same as above, but adds launches to a plan. `slots` has the caller's list and the lengths.
  std::optional<BlockListSlots> lists(PlanBuilder& plan, const AttentionSlots& slots,
                                      const AttentionTensors& tensors,
                                      const AttentionTileShape& tiles,
                                      const QueryTileRows& rows) const;
  /// Returns one line that states the traversal and the reason.
  const std::string& text() const { return text_; }
  /// Returns a report, like Kernel::explain(), on the kernels that compute the lists.
  std::string explain() const { return derived_ ? derived_->explain() : ""; }

 private:
  std::optional<BlockList> list_;
  decltype(AttentionSpec::kv_range) range_;
  decltype(AttentionSpec::full_kv_range) full_;
  std::optional<BlockMask> derived_;
  MaskDependence listed_;
  bool depends_on_data_ = false;
  KvExtent kv_extent_ = KvExtent::unknown;
  std::string text_;
};

}  // namespace tegula::kernels
