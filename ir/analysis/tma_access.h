#pragma once
// Determines which boxes of views TMA can load.
#include <string_view>

#include "ir/kernel.h"

namespace tegula::ir {

/// Alignment in bytes of the shared memory that TMA writes.
inline constexpr std::int64_t kTmaLineBytes = 128;

/// Returns the dimension of a tile along view dimensions `axes` that is contiguous in memory, the
/// last one if there are several; -1 if there is none.
int line_dim(Type view, std::span<const std::int64_t> axes);

/// Returns true if cp.async.bulk.tensor can load a tile with dimensions along view dimensions
/// `axes`. The view must be a parameter, which has a tensor map, with 16-byte strides and base, a
/// contiguous dimension among the axes, rank at most 5 and extents at most 256 (CUDA driver API,
/// cuTensorMapEncodeTiled).
bool is_tma_loadable(Type view, std::span<const std::int64_t> axes, Type tile);

/// Returns the reason why TMA cannot load such a tile with a swizzle, for threads to read; empty if
/// it can.
std::string_view why_not_tma_tile(Type view, std::span<const std::int64_t> axes, Type tile);

/// Returns the reason why TMA cannot load the tile of a load_view; empty if it can.
std::string_view why_not_tma_load(const Kernel& k, const OpData& load);

/// Returns true if TMA can load a load_view's one-dimensional tile, which needs no swizzle. The
/// tile must be a multiple of 128 bytes, so that every slot of a ring is aligned.
bool is_tma_row(const Kernel& k, const OpData& load);

/// Segments of a row in shared memory that TMA fills one at a time: `count` segments, each
/// `swizzle` bytes wide with the swizzle of that width; 0 if the row is not a multiple of any
/// swizzle width.
struct TmaSegments {
  std::int64_t swizzle = 0;
  std::int64_t count = 0;
  std::int64_t bytes() const { return swizzle * count; }
};

/// Divides a row of `row` bytes, of which the first `end` are inside the view (all of them if the
/// row may begin anywhere). Rows that all begin at a memory sector (32 bytes) get equal segments of
/// the widest swizzle that divides them. If rows begin inside sectors, each segment reads one
/// sector more than its bytes fill, so fewer, wider segments load faster, although the last one
/// extends beyond the row and wastes shared memory.
TmaSegments tma_segments(std::int64_t row, std::int64_t end, bool whole_sectors);
TmaSegments tma_segments(const Kernel& k, const OpData& load);

/// Returns the shared-memory bytes of the tile that TMA writes for a load_view.
std::int64_t tma_tile_bytes(const Kernel& k, const OpData& load);

/// Returns the bytes that TMA writes into one slot of a ring. Dimension 0 indexes the slots.
std::int64_t slot_bytes(Type ring);

/// Returns true if two loads can each copy half of a load_view's tile: an even number of segments
/// per row, or half the rows, which must be a multiple of the swizzle pattern (8 rows).
bool is_multicast_splittable(const Kernel& k, const OpData& load);

}  // namespace tegula::ir
