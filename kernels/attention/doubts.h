#pragma once
// Softmax without a running maximum, and the tiles for which that was not good enough (Hong et al.
// 2023, FlashDecoding++, 3): exponents are relative to the largest score of the first block that a
// tile visits. Where others are much larger, or where the row sees none of that block, sums may
// leave the range in which they are as accurate as relative to the largest score of all. They are
// looked at, tiles with such rows are marked, and a second kernel computes those again.
#include <cstdint>

#include "tegula/tegula.h"

namespace tegula {

/// What a kernel of attention does about it.
enum class Round : std::uint8_t {
  only,    ///< each step's exponents are relative to the largest score so far
  first,   ///< relative to the largest of the first block: marks doubtful tiles
  second,  ///< computes marked tiles again, as `only` does
};

/// In a kernel: a tile's mark, and whether any tile has one.
class Doubts {
 public:
  /// `marks`: of each tile. `count`: two counters that are 0.
  Doubts(const Ptr<u32>& marks, const Ptr<u32>& count) : marks_(marks), count_(count) {}

  /// First round: marks the tile if one of its rows [rows] is doubtful.
  void mark(const Tile& tile, const Tile& doubtful) const;
  /// Second round: whether there are marked tiles at all.
  Tile any() const;
  /// Whether this one is, where some are.
  Tile is_marked(const Tile& tile) const;
  void clear(const Tile& tile) const;
  /// By each of so many programs when it has done with its tiles; the last one resets the counters.
  void leave(const Tile& programs) const;

 private:
  Tile marks_, count_;
};

}  // namespace tegula
