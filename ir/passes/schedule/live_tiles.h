#pragma once
// Register pressure of the tiles of a program in tile form.
#include <cstdint>

#include "ir/kernel.h"

namespace tegula::ir {

/// Largest number of warps of a CTA.
inline constexpr int kMaxWarps = 32;

/// The tiles at the point of highest register pressure.
struct LiveTiles {
  std::int64_t registers = 0;  ///< 32-bit registers of each thread
  Value largest;               ///< the tile with the most registers; none: no tile is live
  bool has_exchange = false;   ///< threads fold, scan, sort or rank elements of a tile together
};

/// Returns the live tiles of a program of `threads` threads: loaded tiles until their last use,
/// loop carries, accumulators, fragments of dots, and tiles that are live across an exchange
/// between threads or across a dot. Other elementwise values are not counted, because the assembler
/// can compute them one register at a time.
LiveTiles live_tiles(const Kernel& k, std::int64_t threads);

/// Returns true if the live tiles of `num_warps` warps leave each thread the registers that
/// addresses, masks and elementwise values take. A carry whose next value is loaded in the loop is
/// live to its last use. Without masked loads, a tile that is live across an exchange is not
/// counted if one cheap op computes it from tiles that are live there anyway: `w * g` if w and g
/// are read again, too. ptxas 13.0 computes such tiles again and does not spill, but it spills
/// where loads are masked or where narrower tiles would have to stay live instead.
bool live_tiles_fit(const Kernel& k, int num_warps);

/// Returns the smallest number of warps, `preferred` or twice that and so on, whose live tiles fit;
/// `preferred` if none fits.
int warps_that_fit(const Kernel& k, int preferred);

}  // namespace tegula::ir
