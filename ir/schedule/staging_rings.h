#pragma once
// Channels of stores: rings of staging buffers in shared memory, from which TMA stores what threads
// have laid down there. An author's Schedule says which stores share a ring, how many buffers it
// has and how many columns of a tile one holds; else all stores share one.
#include <cstdint>
#include <vector>

#include "ir/kernel.h"
#include "ir/layout/shared_layout.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Buffers begin where swizzled tiles may.
inline constexpr std::int64_t kStagingAlignment = 1024;

/// Whether a channel of this kind takes tiles to global memory.
constexpr bool is_of_stores(ChannelKind kind) {
  return kind == ChannelKind::Store || kind == ChannelKind::Reduce;
}

/// The channel of a Schedule that a store goes through, by the label that the op has as an
/// attribute; null: none, threads store it themselves.
const Channel* store_channel(const Schedule& s, const OpData& store);

/// Columns of a store's tile that are stored at a time; 0: all.
int stored_columns(const Schedule* asked, const OpData& store, int planned);

/// Layout of a stored tile in a buffer.
SharedLayout staged_layout(Type tile);

/// Bytes of a buffer for so many columns of a tile of two dimensions; 0: all.
std::int64_t staging_bytes(Type tile, std::int64_t columns = 0);

/// Buffers that stores take in turn.
struct StagingRing {
  const Channel* channel = nullptr;  ///< of the author's Schedule
  std::vector<OpId> stores;          ///< in text order
  std::int64_t buffer_bytes = 0;
  int buffers = 1;
};

/// The rings of a kernel in machine form whose shared memory ends at `end`, in text order of their
/// first stores. One of the author's Schedule has the slots that it says, at most one for each of
/// its stores. Else there is one buffer for each store where shared memory allows, at most four,
/// and at least one. `groups` of warps have their own.
std::vector<StagingRing> staging_rings(const Kernel& machine, const Schedule* asked, int groups,
                                       std::int64_t end);

}  // namespace tegula::ir
