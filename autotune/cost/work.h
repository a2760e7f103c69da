#pragma once
// Work of a kernel configuration on a GPU as counts, independent of times and of the kernel family.
// The rates of a device profile turn it into time (autotune/cost/time_of.h).
#include <cstdint>

namespace tegula::autotune {

/// Engines that multiply tiles; none: the kernel has no dots.
enum class MmaEngine : std::uint8_t { wgmma, mma_sync, none };

/// How the parts of a split contraction are added.
enum class PartsSum : std::uint8_t { none, in_cluster, by_kernel };

/// Execution order of a call's tiles: matrix by matrix, within a matrix by groups of `group` tile
/// rows, within a group column by column. Tiles of a row share operands, and so do tiles of a
/// column.
struct TileOrder {
  double matrices = 1, rows = 1, columns = 1;
  double group = 1;
  double row_bytes = 0, column_bytes = 0;  ///< operands of one row of tiles, and of one column
  double result_bytes = 0;                 ///< per tile, written and read by its epilogue
  int tiles_of_sm = 1;  ///< tiles that alternate on an SM; they share one operand ring
};

/// Counts are per trip of a CTA's mainloop unless stated otherwise. A tile is the work of one CTA
/// between two epilogues; each part of a split contraction is a tile.
struct Work {
  /// @name Mainloop
  /// @{
  double trips = 0;            ///< per tile
  double mma_bytes = 0;        ///< 2 * rows * columns * bytes along k, independent of the type
  double smem_bytes = 0;       ///< shared memory read by the tensor cores
  double l2_lines = 0;         ///< 128-byte requests after multicast, in bounds only
  double single_elements = 0;  ///< elements that threads load individually
  double thread_ops = 0;       ///< elements that threads compute, and those of FMAs of dots
  double exchanges = 0;        ///< folds of a tile between threads
  int mma_columns = 0;         ///< of one instruction
  int slots = 1;               ///< ring slots: trips in flight
  MmaEngine engine = MmaEngine::wgmma;
  /// @}

  /// @name Grid
  /// @{
  double tiles = 0;
  int ctas_per_sm = 1;
  int cluster = 1;
  bool is_multicast = false;
  /// The k-iterations of all tiles are distributed evenly over one CTA per SM.
  bool is_streamed = false;
  /// A CTA computes one tile after another.
  bool is_persistent = false;
  /// The epilogue of a tile overlaps the mainloop of the next one.
  bool overlaps_epilogue = false;
  /// @}

  double epilogue_bytes = 0;  ///< per tile, global memory that threads read and write
  double epilogue_rows = 1;   ///< warpgroups that share these bytes
  double accumulator_bytes = 0;
  bool transposes = false;       ///< the accumulator is transposed before the store
  bool stores_elements = false;  ///< threads store single elements of 16 bits, unstaged
  TileOrder order;
  PartsSum sum = PartsSum::none;
  int parts = 1;
  double part_bytes = 0;    ///< partial accumulators of one part, over all tiles
  double repack_bytes = 0;  ///< read and written by a preceding kernel with its own launch
  /// Bytes in flight per CTA that belong to lines without successors in the ring.
  double scattered_bytes = 0;
};

}  // namespace tegula::autotune
