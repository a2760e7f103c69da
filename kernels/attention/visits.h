#pragma once
// The blocks of keys that one tile of queries visits: what the loop of attention runs over.
#include <optional>

#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula {

/// Block lists as the kernel takes them.
struct ListViews {
  In<i32, 4> blocks;  ///< [batch, heads, query tiles, capacity]
  In<i32, 3> counts;  ///< entries of each row
  /// The blocks that need no mask, which come first; absent: all need it.
  std::optional<In<i32, 3>> full;
  /// What needs a mask stands at the end of the row, last one first, not behind the full ones.
  bool two_ended;
};

/// One step of the loop is one block, of which `block` says the keys.
class Visits {
 public:
  /// What a mask was found to let through.
  static Visits range(const KvRanges& keys, const Tile& length, int block);
  /// The row of query tile m, or its `columns`.
  static Visits list(const ListViews& views, const Index& b, const Index& h, const Tile& m,
                     int block, std::optional<ListColumns> columns = {});

  /// The same, or none where the condition does not hold.
  Visits if_any(const Tile& condition) const;

  /// The same, with a step where there is none, unless a list says what is visited. What is masked
  /// must be the mask's to say.
  Visits with_a_step() const;

  /// The same from the last block to the first, where they are one interval.
  Visits backwards() const;

  /// Of the steps, in order, part `number` of `parts` that have as many, but for the last ones.
  Visits part(const Tile& number, const Tile& parts) const;

  detail::StepRange steps() const;
  Index block(const Index& step) const;
  Tile is_first(const Index& step) const;
  /// Whether the block of a step holds a key that some row must not see: one behind the last, or
  /// one that the mask may stop.
  Tile needs_mask(const Index& step, bool has_mask) const;

 private:
  /// Behind the last key of an interval.
  Tile end() const;
  /// From one step to the next one.
  int stride() const { return row_ || !parts_.empty() ? 1 : block_; }

  /// From step `begin` on, step i is the block from key origin + i * block on.
  struct Part {
    Tile origin, begin;
  };
  void place(const std::vector<KvRange>& keys);

  struct Row {
    ListViews views;
    Tile b, h, m;
    std::optional<ListColumns> columns;
    /// Where the entry of step i stands.
    Tile at(const Tile& i, const Tile& full_count) const;
  };
  Tile lo_, hi_, length_;
  std::optional<Tile> mirror_;  ///< backwards: step i is the block from key mirror - i on
  int block_ = 0;
  bool has_step_ = false;  ///< in every tile
  std::vector<KvRange> full_;
  std::vector<Part> parts_;  ///< empty: one interval
  Tile full_count_;
  std::optional<Row> row_;
};

}  // namespace tegula
