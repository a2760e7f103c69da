#pragma once
// Tiles of whole rows, for kernels that need a complete row before they write any of it.
#include <cstdint>

#include "tegula/hints.h"
#include "tegula/row_config.h"
#include "tegula/tile_ops.h"

namespace tegula::kernels {

/// Longest row, in columns, that one program keeps in registers.
inline constexpr std::int64_t kMaxHeldColumns = 32768;

/// Keeps rows that are read once in L2 in preference to written data, so that writes drain
/// steadily: kernels took 1-3 % less time on an H200. Chains of such kernels on tensors of 8 to 270
/// MB were unchanged, within run-to-run noise (bench/results/sweeps/*-rows.jsonl).
inline constexpr Hints kReadOnce{.evict = Evict::last};

/// Broadcasts one value per row along the row, for a tile of several rows or of one row.
inline Tile along_row(const Tile& t) { return t.rank() == 0 ? t : t.expand(1); }

}  // namespace tegula::kernels
