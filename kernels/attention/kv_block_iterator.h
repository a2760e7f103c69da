#pragma once
// The kv blocks that one query tile visits: the iteration space of attention's loop.
#include <optional>

#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Block lists as parameters of a kernel, if there are any (BlockListArgs).
struct BlockListParams {
  std::optional<In<i32, 4>> blocks;
  std::optional<In<i32, 3>> counts, full;
};

/// Views of block lists in the kernel.
struct BlockListViews {
  In<i32, 4> blocks;  ///< [batch, heads, query tiles, capacity]
  In<i32, 3> counts;  ///< entries of each row
  /// Number of leading entries that need no mask; absent: all blocks need it.
  std::optional<In<i32, 3>> full;
  /// Partial blocks are at the end of the row in reverse order, instead of after the full ones.
  bool two_ended;
};

/// Replaces each range of `keys` by the result of the function for its kind.
template <class Visible, class Full>
void replace_ranges(KvRanges& keys, const Visible& visible, const Full& full) {
  if (keys.visible) keys.visible = visible(*keys.visible);
  for (KvRange& range : keys.visible_intervals) range = visible(range);
  if (keys.full) keys.full = full(*keys.full);
  for (KvRange& range : keys.full_intervals) range = full(range);
}

/// Iterates over kv blocks; `block` returns the keys of an iteration.
class KvBlockIterator {
 public:
  /// Iterates over the kv ranges that were derived from a mask.
  static KvBlockIterator range(const KvRanges& keys, const Tile& length, int block);
  /// Iterates over the list row of query tile m, or over its `columns` only.
  static KvBlockIterator list(const BlockListViews& views, const Index& b, const Index& h,
                              const Tile& m, int block, std::optional<KvIndexWindow> columns = {});

  /// Returns the same iterator, without iterations if the condition is false.
  KvBlockIterator only_if(const Tile& condition) const;

  /// Returns the same iterator with at least one iteration, unless it iterates over a list. The
  /// mask must exclude all keys of the added iteration.
  KvBlockIterator with_min_one_block() const;

  /// Returns the reverse iterator if the keys are one interval, otherwise the same iterator.
  KvBlockIterator reversed() const;

  /// Returns chunk `number` of `parts` equal, ordered chunks of the iterations; the last chunks may
  /// be shorter.
  KvBlockIterator chunk(const Tile& number, const Tile& parts) const;

  tegula::detail::LoopRange steps() const;
  /// Returns the number of iterations, and iteration `number` of them.
  Tile count() const;
  Index step(const Tile& number) const;
  Index block(const Index& step) const;
  Tile is_first(const Index& step) const;
  /// Returns the end (exclusive) of the keys, which is seqlen_kv except under a given range.
  Tile key_end(const Tile& seqlen_kv) const { return row_ ? seqlen_kv : length_; }
  /// Returns true if the kv block needs masking: it contains keys beyond `key_end`, or keys that
  /// the mask may exclude for some row.
  Tile needs_mask(const Index& step, bool has_mask) const;
  /// Returns the end (exclusive) of the keys of the iteration's block that some row may attend to,
  /// at most seqlen_kv, or nothing if the traversal does not know such an end.
  std::optional<Tile> visible_end(const Index& step) const;

 private:
  /// Returns the end (exclusive) of the iteration range.
  Tile end() const;
  /// Increment of the loop variable per iteration.
  int stride() const { return row_ || !parts_.empty() ? 1 : block_; }

  /// From iteration `begin` on, iteration i visits the block that begins at key origin + i * block.
  struct PlacedInterval {
    Tile origin, begin;
  };
  void place(const std::vector<KvRange>& keys);

  struct BlockListRow {
    BlockListViews views;
    Tile b, h, m;
    std::optional<KvIndexWindow> columns;
    /// Returns the column of the entry for iteration i.
    Tile at(const Tile& i, const Tile& full_count) const;
  };
  Tile lo_, hi_, length_;
  Tile visible_hi_;  ///< end of the visible keys, of a single interval, whatever is visited
  std::optional<Tile>
      reverse_end_;  ///< in reverse: iteration i visits the block that begins at key end - i
  int block_ = 0;
  bool has_step_ = false;  ///< at least one iteration in every tile
  bool has_end_ = false;   ///< visible keys may end before seqlen_kv
  std::vector<KvRange> full_;
  std::vector<PlacedInterval> parts_;  ///< empty: a single interval
  std::vector<KvRange> visible_;       ///< the keys of `parts_`, by their first key
  Tile full_count_;
  std::optional<BlockListRow> row_;
};

}  // namespace tegula::kernels
