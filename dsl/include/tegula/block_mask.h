#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tegula/call_plan.h"
#include "tegula/functions.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"
#include "tegula/value.h"

/// Block masks: the blocks of keys that a tile of queries visits, derived from a mask function.
namespace tegula {

/// Positions [lo, hi) of keys and values.
struct KvRange {
  Tile lo, hi;
};

/// A range that is absent says nothing: all keys are visible, none is seen by all rows.
struct KvRanges {
  std::optional<KvRange> visible;  ///< no row sees any other key; 0 <= lo <= hi
  std::optional<KvRange> full;     ///< all rows see these, as far as there are keys
  /// The same with gaps, where there may be some: no order, and one may overlap another.
  std::vector<KvRange> visible_intervals, full_intervals;
};

/// Queries and keys of a block.
struct BlockShape {
  int block_q, block_kv;
};
/// Queries and keys of the blocks that a list may have.
inline constexpr std::initializer_list<int> kListQueries{16, 32, 64, 128},
    kListKeys{16, 32, 48, 64, 80, 96, 112, 128, 176};

/// Block lists as arguments of a kernel: [batch, heads, query tiles, capacity], and [batch, heads,
/// query tiles] otherwise. Without `full` every block needs the mask.
struct BlockListArgs {
  Tensor blocks, counts, full;
  /// Each head's tiles, those that visit most blocks first; undefined: as the kernel likes.
  Tensor order = {};
};

/// The same as slots of a plan.
struct BlockListSlots {
  PlanSlot blocks, counts, full, order;
};

/// Starts of consecutive sequences of different lengths: i32 [sequences + 1], from 0 to the total
/// length, ascending (FlashAttention's cu_seqlens); at most 65536 sequences. Read by the kernel,
/// which does not check them.
struct CuSeqlens {
  Tensor q, kv;
  std::int64_t max_seqlen_q = 0;  ///< queries of the longest sequence, or any bound of them
};

/// The rows of a call's query tiles.
struct QueryTileRows {
  int group = 1;                    ///< heads whose queries are one head's rows, head by head
  bool align_bottom_right = false;  ///< the last query stands at the last key
  bool longest_first = false;       ///< whether an order of the tiles is wanted
  CuSeqlens lengths = {};  ///< starts of consecutive sequences; undefined tensors: there are none
};

/// The columns of a list's rows that hold the blocks of one sequence, where all sequences of a call
/// have theirs beside each other: as many as there are keys need few more than keys of one.
struct KvIndexWindow {
  Tile begin, end;

  /// The window of sequence b, whose keys begin at `first`. No other begins before the end.
  static KvIndexWindow of_sequence(const Tile& b, const Tile& first, const Tile& length, int block);
};

/// How the blocks of keys that a mask lets through are found: by closed ranges, or by lists that
/// kernels make of what the mask computes.
class BlockMask {
 public:
  /// Traces the mask over scalars; of one that cannot be, nothing is known. `in_order`: blocks of
  /// keys must come in ascending order, which lists do not keep.
  explicit BlockMask(const Mask& mask, bool in_order = false);

  bool uses_block_list() const { return derived_ != nullptr; }
  /// True if there are several closed ranges.
  bool has_parts() const { return has_parts_; }
  /// True if all keys before one limit, which rises with the rows, are visible.
  bool is_up_to_row() const { return is_up_to_row_; }
  /// True if tensors, or what cannot be traced, say what a row sees.
  bool is_data_dependent() const { return depends_on_data_; }
  /// One line: how blocks are found, and why.
  const std::string& text() const { return text_; }

  /// Records the keys that query rows [first, last] see, in the kernel that is being traced, for
  /// conditions whose ends are simple enough to be recomputed by every program. Conditions that are
  /// not affine in q, or whose arithmetic may wrap around, are taken to be unknown.
  KvRanges record(const Tile& first, const Tile& last, const Tile& seqlen_kv) const;
  /// Launches what makes the lists of attention from `Q` to `K` and `V` ([batch, heads, rows,
  /// head_dim]) into `O`, in the stream's workspace. Nothing where there are none, or where
  /// positions are computed in 64 bits and the lists may not hold for those.
  std::optional<BlockListArgs> lists(const Stream& stream, const Tensor& Q, const Tensor& K,
                                     const Tensor& V, const Tensor& O, BlockShape block,
                                     const QueryTileRows& rows) const;
  /// The same as launches of a plan; `rows` has the lengths of its slots `cu_q` and `cu_kv`.
  std::optional<BlockListSlots> lists(PlanBuilder& plan, const Tensor& Q, const Tensor& K,
                                      const Tensor& V, const Tensor& O, BlockShape block,
                                      const QueryTileRows& rows, PlanSlot cu_q,
                                      PlanSlot cu_kv) const;
  /// Report on the kernels that make the lists, as of a kernel.
  std::string explain() const;

 private:
  std::string derive(bool in_order);
  bool has_lists_for(std::initializer_list<const Tensor*> tensors) const;

  Mask mask_;
  std::shared_ptr<const class DerivedBlockLists> derived_;
  bool has_parts_ = false, is_up_to_row_ = false, depends_on_data_ = false;
  std::string text_;
};

}  // namespace tegula
