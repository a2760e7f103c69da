#pragma once
// The blocks of keys that one tile of queries visits: what the loop of attention runs over.
#include <optional>

#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula {

/// Block lists as the kernel takes them.
struct BlockListViews {
  In<i32, 4> blocks;  ///< [batch, heads, query tiles, capacity]
  In<i32, 3> counts;  ///< entries of each row
  /// The blocks that need no mask, which come first; absent: all need it.
  std::optional<In<i32, 3>> full;
  /// Partial blocks stand at the end of the row, last one first, instead of after the full ones.
  bool two_ended;
};

/// Iterates over kv blocks; `block` gives the keys of an iteration.
class KvBlockIterator {
 public:
  /// Iterates over the kv ranges that a mask was found to leave.
  static KvBlockIterator range(const KvRanges& keys, const Tile& length, int block);
  /// The row of query tile m, or its `columns`.
  static KvBlockIterator list(const BlockListViews& views, const Index& b, const Index& h,
                              const Tile& m, int block, std::optional<KvIndexWindow> columns = {});

  /// The same, or none where the condition does not hold.
  KvBlockIterator only_if(const Tile& condition) const;

  /// The same with at least one iteration, unless a list gives the blocks. The mask must then
  /// exclude all keys.
  KvBlockIterator with_min_one_block() const;

  /// The same from the last block to the first, where they are one interval.
  KvBlockIterator reversed() const;

  /// Chunk `number` of `parts` equal chunks of the iterations, in order; the last ones may be
  /// shorter.
  KvBlockIterator chunk(const Tile& number, const Tile& parts) const;

  detail::LoopRange steps() const;
  Index block(const Index& step) const;
  Tile is_first(const Index& step) const;
  /// Whether the kv block needs masking: it contains keys beyond seqlen_kv, or keys that the mask
  /// may exclude for some row.
  Tile needs_mask(const Index& step, bool has_mask) const;

 private:
  /// Behind the last key of an interval.
  Tile end() const;
  /// Distance between iterations.
  int stride() const { return row_ || !parts_.empty() ? 1 : block_; }

  /// From iteration `begin` on, iteration i is the block from key origin + i * block on.
  struct PlacedInterval {
    Tile origin, begin;
  };
  void place(const std::vector<KvRange>& keys);

  struct BlockListRow {
    BlockListViews views;
    Tile b, h, m;
    std::optional<KvIndexWindow> columns;
    /// Position of the entry of iteration i.
    Tile at(const Tile& i, const Tile& full_count) const;
  };
  Tile lo_, hi_, length_;
  std::optional<Tile>
      reverse_end_;  ///< in reverse: iteration i is the block from key mirror - i on
  int block_ = 0;
  bool has_step_ = false;  ///< in every tile
  std::vector<KvRange> full_;
  std::vector<PlacedInterval> parts_;  ///< empty: one interval
  Tile full_count_;
  std::optional<BlockListRow> row_;
};

}  // namespace tegula
