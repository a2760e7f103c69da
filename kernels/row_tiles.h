#pragma once
// Tiles of whole rows, for kernels that need all of a row before they write any of it.
#include <bit>
#include <cstdint>

#include "tegula/hints.h"
#include "tegula/tile_ops.h"

namespace tegula {

/// Columns of the longest row that one program holds in registers.
inline constexpr std::int64_t kMaxHeldColumns = 32768;

/// Rows read once are kept in the L2 before what is written: so writing goes on all the time, and
/// kernels took 1-3 % less on an H200. Chains of such kernels on tensors of 8 to 270 MB took as
/// long as without, within what two runs differ by (bench/results/sweeps/*-rows.jsonl).
inline constexpr Hints kReadOnce{.evict = Evict::last};

/// Rows of a tile: short rows share a program, so that its threads have 16-byte accesses enough,
/// and a warp holds a whole row, which it reduces without a barrier.
inline int rows_per_tile(std::int64_t columns) {
  constexpr std::uint64_t kElements = 4096, kMaxRows = 64;
  const std::uint64_t held = std::bit_ceil(static_cast<std::uint64_t>(columns > 1 ? columns : 1));
  if (held > 1024) return 1;
  return static_cast<int>(kElements / held < kMaxRows ? kElements / held : kMaxRows);
}

/// A value of each row, along the row: of a tile of several rows, or of the one row.
inline Tile along_row(const Tile& t) { return t.rank() == 0 ? t : t.expand(1); }

}  // namespace tegula
