#pragma once
// Softmax without a running maximum, and the tiles for which that was not good enough (Hong et al.
// 2023, FlashDecoding++, 3): exponents are relative to the largest score of the first block that a
// tile visits. Where others are much larger, or where the row sees none of that block, sums may
// leave the range in which they are as accurate as relative to the largest score of all. They are
// looked at, tiles with such rows are marked, and a second kernel computes those again.
#include <cstdint>

#include "tegula/tegula.h"

namespace tegula {

/// Role of an attention kernel in speculative softmax.
enum class SoftmaxPass : std::uint8_t {
  exact,        ///< each step's exponents are relative to the largest score so far
  speculative,  ///< relative to the largest of the first block: marks needs_recompute tiles
  recompute,    ///< computes marked tiles again, as `exact` does
};

/// In a kernel: Scratch::fallback_flags, a bit for each of so many groups of tiles, whose number is
/// such that launches that a graph records need little memory of their own: a needs_recompute tile
/// takes the others of its group with it.
class FallbackFlags {
 public:
  explicit FallbackFlags(const Ptr<u32>& words) : words_(words) {}

  /// First pass: flags the tile if one of its rows [rows] is needs_recompute.
  void mark(const Tile& tile, const Tile& needs_recompute) const;
  /// Second pass: whether any tile is flagged.
  Tile any() const;
  /// Whether this one is, where some are.
  Tile is_flagged(const Tile& tile) const;
  /// Called by each of `programs` programs after its tiles. The last one clears all flags: none
  /// reads them any longer.
  void leave(const Tile& programs) const;

 private:
  Tile word_of(const Tile& tile) const;

  Tile words_;  ///< whether there are flags, programs that have ended, flags
};

}  // namespace tegula
