#pragma once
// Speculative softmax without a running maximum, and its fallback (Hong et al. 2023,
// FlashDecoding++, section 3): exponents are relative to the largest score of the first block that
// a tile visits. If later scores are much larger, or the row attends to no key of that block, row
// sums may leave the range in which they are as accurate as with the true maximum. Tiles with such
// rows are flagged, and a second kernel recomputes them.
#include <cstdint>

#include "tegula/tegula.h"

namespace tegula::kernels {

/// Role of an attention kernel in speculative softmax.
enum class SoftmaxPass : std::uint8_t {
  exact,        ///< exponents are relative to the largest score so far
  speculative,  ///< exponents are relative to the first block's maximum: flags tiles to recompute
  recompute,    ///< recomputes flagged tiles, as `exact` does
};

/// Flags within a kernel (Scratch::fallback_flags), one bit per group of tiles. The number of
/// groups is small, so that launches recorded in a graph need little memory. All tiles of a group
/// are recomputed if one of them is flagged.
class FallbackFlags {
 public:
  explicit FallbackFlags(const Ptr<u32>& words) : words_(words) {}

  /// First pass: flags the tile if any of its rows [rows] needs recomputation.
  void mark(const Tile& tile, const Tile& needs_recompute) const;
  /// Second pass: returns true if any tile is flagged.
  Tile any() const;
  /// Returns true if this tile is flagged.
  Tile is_flagged(const Tile& tile) const;
  /// Called by each of `programs` programs after its tiles. The last one clears all flags, because
  /// no program reads them any more.
  void leave(const Tile& programs) const;

 private:
  Tile word_of(const Tile& tile) const;

  Tile words_;  ///< word 0: any flag is set; word 1: programs that have finished; then the flags
};

}  // namespace tegula::kernels
