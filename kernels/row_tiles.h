#pragma once
// Tiles of whole rows, for kernels that need all of a row before they write any of it.
#include <cstdint>

#include "tegula/hints.h"
#include "tegula/row_config.h"
#include "tegula/tile_ops.h"

namespace tegula {

/// Columns of the longest row that one program holds in registers.
inline constexpr std::int64_t kMaxHeldColumns = 32768;

/// Rows read once are kept in the L2 before what is written: so writing goes on all the time, and
/// kernels took 1-3 % less on an H200. Chains of such kernels on tensors of 8 to 270 MB took as
/// long as without, within what two runs differ by (bench/results/sweeps/*-rows.jsonl).
inline constexpr Hints kReadOnce{.evict = Evict::last};

/// A value of each row, along the row: of a tile of several rows, or of the one row.
inline Tile along_row(const Tile& t) { return t.rank() == 0 ? t : t.expand(1); }

}  // namespace tegula
