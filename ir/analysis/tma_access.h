#pragma once
// Decides which boxes of views TMA can load.
#include <string_view>

#include "ir/kernel.h"

namespace tegula::ir {

/// Shared memory that TMA writes begins at a multiple of so many bytes.
inline constexpr std::int64_t kTmaLineBytes = 128;

/// True if a tile with dimensions along view dimensions `axes` can be loaded from the view by
/// cp.async.bulk.tensor: a parameter, which has a tensor map, 16-byte strides and base, a
/// contiguous dimension among the axes, rank at most 5, extents at most 256 (CUDA driver API,
/// cuTensorMapEncodeTiled).
bool is_tma_loadable(Type view, std::span<const std::int64_t> axes, Type tile);

/// Why TMA cannot load such a tile under a swizzle, for threads to read; empty if it can.
std::string_view why_not_tma_tile(Type view, std::span<const std::int64_t> axes, Type tile);

/// The same of what a load_view loads.
std::string_view why_not_tma_load(const Kernel& k, const OpData& load);

/// Whether TMA can load a load_view's tile of one dimension, which needs no swizzle: whole lines of
/// 128 bytes, so that every slot of a ring begins at one.
bool is_tma_row(const Kernel& k, const OpData& load);

/// Segments of a row in shared memory that TMA fills one by one: `count` of them, each `swizzle`
/// bytes wide under the swizzle of that name; 0: the row is no multiple of one.
struct TmaSegments {
  std::int64_t swizzle = 0;
  std::int64_t count = 0;
  std::int64_t bytes() const { return swizzle * count; }
};

/// Divides a row of `row` bytes, of which the first `end` lie inside the view (all, if the row may
/// begin anywhere). Rows that all begin at a sector of memory (32 bytes) get equal segments of the
/// widest swizzle that divides them. If rows begin inside of sectors, each segment reads one more
/// sector than its bytes fill, so that fewer, wider segments are loaded faster, though the last one
/// reaches beyond the row and takes shared memory for nothing.
TmaSegments tma_segments(std::int64_t row, std::int64_t end, bool whole_sectors);
TmaSegments tma_segments(const Kernel& k, const OpData& load);

/// Shared memory of the tile of a load_view that TMA makes, in bytes.
std::int64_t tma_tile_bytes(const Kernel& k, const OpData& load);

/// Bytes that TMA writes into one slot of a ring, which are dimension 0.
std::int64_t slot_bytes(Type ring);

/// True if two loads can each take half of a load_view's tile: an even number of segments of its
/// rows, or half the rows, which must be whole patterns of a swizzle (8 rows).
bool is_multicast_splittable(const Kernel& k, const OpData& load);

}  // namespace tegula::ir
