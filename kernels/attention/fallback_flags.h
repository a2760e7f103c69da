#pragma once
// Speculative softmax, without a running maximum, and its fallback (Hong et al. 2023,
// FlashDecoding++, 3): exponents are relative to the largest score of the first block that a tile
// visits. If others are much larger, or the row attends to none of that block, row sums may leave
// the range in which they are as accurate as relative to the largest score of all. Tiles with such
// rows are flagged, and a second kernel recomputes them.
#include <cstdint>

#include "tegula/tegula.h"

namespace tegula {

/// Role of an attention kernel in speculative softmax.
enum class SoftmaxPass : std::uint8_t {
  exact,        ///< exponents are relative to the largest score so far
  speculative,  ///< relative to the largest score of the first block: flags tiles to recompute
  recompute,    ///< recomputes flagged tiles, as `exact` does
};

/// In a kernel: Scratch::fallback_flags, one bit per group of tiles; there are so few groups that
/// launches recorded in a graph need little memory of their own. A tile to recompute takes the
/// others of its group with it.
class FallbackFlags {
 public:
  explicit FallbackFlags(const Ptr<u32>& words) : words_(words) {}

  /// First pass: flags the tile if one of its rows [rows] needs a recomputation.
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
