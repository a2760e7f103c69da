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

/// An absent range means no bound: any key may be visible, and no key is known to be full.
struct KvRanges {
  std::optional<KvRange> visible;  ///< no row attends to other keys; 0 <= lo <= hi
  std::optional<KvRange> full;     ///< all rows attend to these, if they exist
  /// The same as several intervals if there may be gaps; they are unordered and may overlap.
  std::vector<KvRange> visible_intervals, full_intervals;
};

/// Queries and keys of a block.
struct BlockShape {
  int block_q, block_kv;
};
/// Queries and keys of the blocks that lists support.
inline constexpr std::initializer_list<int> kListQueries{16, 32, 64, 128},
    kListKeys{16, 32, 48, 64, 80, 96, 112, 128, 176};

/// Block lists as arguments of a kernel: [batch, heads, query tiles, capacity], and [batch, heads,
/// query tiles] otherwise. Without `full` every block needs the mask.
struct BlockListArgs {
  Tensor blocks, counts, full;
  /// Each head's tiles, those that visit most blocks first; if undefined, the kernel chooses.
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
  Tensor q, kv;  ///< starts of queries and of keys; the same tensor for self-attention
  std::int64_t max_seqlen_q = 0;  ///< queries of the longest sequence, or an upper bound
};

/// The rows of a call's query tiles.
struct QueryTileRows {
  int group = 1;                    ///< heads whose queries form the rows of one head, head by head
  bool align_bottom_right = false;  ///< the last query is at the last key
  bool longest_first = false;       ///< the lists also order the tiles
  CuSeqlens lengths = {};           ///< starts of consecutive sequences; undefined: no sequences
};

/// Columns of a block list that contain the blocks of one sequence. All sequences of a call share a
/// row of columns, which needs little more capacity than one sequence of all keys.
struct KvIndexWindow {
  Tile begin, end;

  /// Returns the window of sequence b, whose keys begin at `first`. Windows do not overlap.
  static KvIndexWindow of_sequence(const Tile& b, const Tile& first, const Tile& length, int block);
};

/// The arguments that the value of a mask depends on.
struct MaskDependence {
  bool on_batch = true, on_head = true;
  /// Queries (keys) whose positions have the same quotient by the step see (are seen by) the same;
  /// 0 if that holds for all.
  int query_step = 1, key_step = 1;

  /// Traces the mask over scalars. If that fails, it depends on everything.
  static MaskDependence of(const Mask& mask);
};

/// Finds the blocks of keys that a mask lets through: by closed ranges, or by lists that kernels
/// make from the mask.
class BlockMask {
 public:
  /// Traces the mask over scalars; if that fails, nothing is known about the mask. `in_order`
  /// requires blocks of keys in ascending order, which lists do not keep.
  explicit BlockMask(const Mask& mask, bool in_order = false);

  bool uses_block_list() const { return derived_ != nullptr; }
  /// Returns true if there are several closed ranges.
  bool has_parts() const { return has_parts_; }
  /// Returns true if all keys before a limit that rises with the rows are visible.
  bool is_up_to_row() const { return is_up_to_row_; }
  /// Returns true if the keys of a row depend on tensors, or the mask cannot be traced.
  bool is_data_dependent() const { return depends_on_data_; }
  /// Returns true if a list can only be made by evaluating the mask for each pair. Without it, all
  /// keys of the range that is solved are visited.
  bool is_unsolved() const { return is_unsolved_; }
  const MaskDependence& dependence() const { return dependence_; }
  /// Returns one line: how blocks are found, and why.
  const std::string& text() const { return text_; }

  /// Records, in the kernel that is being traced, the keys that query rows [first, last] see, for
  /// conditions whose ends are simple enough for every program to recompute. Conditions that are
  /// not affine in q, or whose arithmetic may wrap around, are treated as unknown.
  KvRanges record(const Tile& first, const Tile& last, const Tile& seqlen_kv) const;
  /// Launches the kernels that make the lists for attention from `Q` to `K` and `V` ([batch, heads,
  /// rows, head_dim]) into `O`, in the stream's workspace: those of an unsolved mask by evaluating
  /// it. Returns nothing if the mask has no lists, or if positions are computed in 64 bits, for
  /// which derived lists may be wrong.
  std::optional<BlockListArgs> lists(const Stream& stream, const Tensor& Q, const Tensor& K,
                                     const Tensor& V, const Tensor& O, BlockShape block,
                                     const QueryTileRows& rows) const;
  /// Does the same as launches of a plan; `cu_q` and `cu_kv` are the slots of `rows.lengths`.
  std::optional<BlockListSlots> lists(PlanBuilder& plan, const Tensor& Q, const Tensor& K,
                                      const Tensor& V, const Tensor& O, BlockShape block,
                                      const QueryTileRows& rows, PlanSlot cu_q,
                                      PlanSlot cu_kv) const;
  /// Adds the launches that evaluate the mask for each pair of a query of `Q` and a key of `K`, and
  /// write `lists` in the caller's format: full blocks first, directly followed by partial ones.
  /// Extents of the lists' batch entries and heads are 1 only if the mask does not depend on them.
  /// `is_transposed`: rows are blocks of `block.block_kv` keys, their entries blocks of queries.
  void evaluate(PlanBuilder& plan, const Tensor& Q, const Tensor& K, BlockShape block,
                bool align_bottom_right, bool is_transposed, const BlockListSlots& lists) const;
  /// Returns a report on the kernels that make the lists, like that of a kernel.
  std::string explain() const;

 private:
  std::string derive(bool in_order);
  const class DerivedBlockLists* lists_for(bool is_wide) const;

  Mask mask_;
  MaskDependence dependence_;
  std::shared_ptr<const class DerivedBlockLists> derived_, evaluated_;
  bool has_parts_ = false, is_up_to_row_ = false, depends_on_data_ = false, is_unsolved_ = false;
  std::string text_;
};

}  // namespace tegula
