#pragma once
// Rings of staging buffers in shared memory: threads write tiles to the buffers, and TMA stores
// them to global memory. An author's Schedule specifies which stores share a ring, how many buffers
// it has, and how many columns of a tile a buffer holds. Without one, all stores share a ring.
#include <cstdint>
#include <vector>

#include "ir/kernel.h"
#include "ir/layout/shared_layout.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Alignment of buffers in bytes, as required for swizzled tiles.
inline constexpr std::int64_t kStagingAlignment = 1024;

/// Returns true if channels of this kind move tiles to global memory.
constexpr bool is_of_stores(ChannelKind kind) {
  return kind == ChannelKind::Store || kind == ChannelKind::Reduce;
}

/// Returns the channel of the Schedule that carries a store, found by the label attribute of the
/// op; null if threads store the tile themselves.
const Channel* store_channel(const Schedule& s, const OpData& store);

/// Returns the columns of a store's tile that are stored at a time (0: all): those of its channel
/// in `requested`, or else `planned`.
int stored_columns(const Schedule* requested, const OpData& store, int planned);

/// Returns the layout of a stored tile in a buffer. Throws InternalError if it cannot be swizzled.
SharedLayout staged_layout(Type tile);

/// Returns the bytes of a buffer for `columns` columns (0: all) of a two-dimensional tile, rounded
/// up to kStagingAlignment.
std::int64_t staging_bytes(Type tile, std::int64_t columns = 0);

/// A ring of buffers that its stores use round-robin.
struct StagingRing {
  const Channel* channel = nullptr;  ///< in the author's Schedule; null if not in one
  std::vector<OpId> stores;          ///< in text order
  std::int64_t buffer_bytes = 0;
  int buffers = 1;
};

/// Returns the rings of a kernel in machine form, in text order of their first stores. `end` is the
/// end of the shared memory in use; each of `groups` groups of warps has its own buffers. A ring of
/// the author's Schedule has the slots of its channel, at most one per store. Another ring has one
/// buffer per store if shared memory allows, at most 4 and at least 1.
std::vector<StagingRing> staging_rings(const Kernel& machine, const Schedule* requested, int groups,
                                       std::int64_t end);

}  // namespace tegula::ir
