#pragma once
// Work that a configuration of a kernel gives a GPU, in counts: no times, and nothing of the
// kernel's family. A device profile's rates turn it into time (autotune/cost/time_of.h).
#include <cstdint>

namespace tegula::autotune {

/// Engines that multiply tiles.
enum class MmaEngine : std::uint8_t { wgmma, mma_sync };

/// How the parts of a divided contraction are added.
enum class PartsSum : std::uint8_t { none, in_cluster, by_kernel };

/// Tiles of a call's results in the order in which they begin: matrix by matrix, in each groups of
/// so many rows of tiles, in a group column by column. Tiles of a row share operands, and tiles of
/// a column others.
struct TileOrder {
  double matrices = 1, rows = 1, columns = 1;
  double group = 1;
  double row_bytes = 0, column_bytes = 0;  ///< operands of a row's tiles, and of a column's
  double result_bytes = 0;                 ///< of a tile, written and read by its epilogue
  int tiles_of_sm = 1;  ///< that take turns on an SM, each with an operand ring's share
};

/// Counts are of one trip of a CTA's mainloop unless they say otherwise. A tile is the work of one
/// CTA between two epilogues, a part of a divided contraction included.
struct Work {
  /// @name Mainloop
  /// @{
  double trips = 0;            ///< of a tile
  double mma_bytes = 0;        ///< 2 * rows * columns * bytes along k: types cancel out
  double smem_bytes = 0;       ///< that the tensor cores read of shared memory
  double l2_lines = 0;         ///< requests of 128 bytes, after multicast, none out of bounds
  double single_elements = 0;  ///< elements that threads load one by one
  int mma_columns = 0;         ///< of an instruction
  int slots = 1;               ///< of the ring: trips under way
  MmaEngine engine = MmaEngine::wgmma;
  /// @}

  /// @name Grid
  /// @{
  double tiles = 0;
  int ctas_per_sm = 1;
  int cluster = 1;
  bool is_multicast = false;
  /// The k-iterations of all tiles are dealt out evenly to one CTA an SM.
  bool is_streamed = false;
  /// A tile's epilogue runs beside the next tile's mainloop.
  bool overlaps_epilogue = false;
  /// @}

  double epilogue_bytes = 0;  ///< of a tile, that threads read and write of global memory
  double epilogue_rows = 1;   ///< warpgroups that share them
  double accumulator_bytes = 0;
  bool transposes = false;  ///< the accumulator, before it is stored
  TileOrder order;
  PartsSum sum = PartsSum::none;
  int parts = 1;
  double part_bytes = 0;    ///< of all partial accumulators of one part
  double repack_bytes = 0;  ///< that another kernel reads and writes before, in a launch of its own
  /// Bytes that the rings of one CTA request at once of lines that follow none of their own.
  double scattered_bytes = 0;
};

}  // namespace tegula::autotune
