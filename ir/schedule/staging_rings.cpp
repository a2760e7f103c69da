#include "ir/schedule/staging_rings.h"

#include <algorithm>

#include "ir/access.h"
#include "tegula/error.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kMaxBuffers = 4;

Result<SharedLayout> swizzled_layout(Type tile, std::int64_t columns) {
  const Dims shape{static_cast<int>(tile.shape()[0]), static_cast<int>(columns)};
  return SharedLayout::swizzled(shape, size_bytes(tile.dtype()), {1, 0}, 128,
                                SegmentRule::WidestFirst);
}

/// Returns the number of buffers of the ring that all stores share.
int buffers_in(std::int64_t room, const StagingRing& ring) {
  const auto most = std::min(kMaxBuffers, static_cast<std::int64_t>(ring.stores.size()));
  return static_cast<int>(std::clamp<std::int64_t>(room / ring.buffer_bytes, 1, most));
}

}  // namespace

const Channel* store_channel(const Schedule& s, const OpData& store) {
  const Label label(store.attrs.s(AttrName::label));
  for (const Channel& c : s.channels)
    if (is_of_stores(c.kind) && std::ranges::find(c.payload, label) != c.payload.end()) return &c;
  return nullptr;
}

int stored_columns(const Schedule* requested, const OpData& store, int planned) {
  const Channel* channel = requested ? store_channel(*requested, store) : nullptr;
  return channel ? channel->columns : planned;
}

SharedLayout staged_layout(Type tile) {
  const auto swizzled = swizzled_layout(tile, tile.shape()[1]);
  if (!swizzled) throw InternalError("a store of " + tile.str() + ": " + swizzled.reason());
  return *swizzled;
}

std::int64_t staging_bytes(Type tile, std::int64_t columns) {
  const std::int64_t of_tile = tile.shape()[1];
  const std::int64_t width = columns == 0 ? of_tile : std::min(columns, of_tile);
  const auto swizzled = swizzled_layout(tile, width);
  return round_up(swizzled ? swizzled->bytes() : tile.shape()[0] * width * size_bytes(tile.dtype()),
                  kStagingAlignment);
}

std::vector<StagingRing> staging_rings(const Kernel& machine, const Schedule* requested, int groups,
                                       std::int64_t end) {
  std::vector<StagingRing> rings;
  walk(machine, machine.body(), [&](OpId op) {
    const OpData& d = machine[op];
    if (d.opcode != Opcode::StoreView || d.attrs.i(AttrName::tma) != 1) return;
    const Channel* channel = requested ? store_channel(*requested, d) : nullptr;
    auto ring = std::ranges::find(rings, channel, &StagingRing::channel);
    if (ring == rings.end()) ring = rings.insert(ring, {channel, {}, 0, 1});
    ring->stores.push_back(op);
    ring->buffer_bytes = std::max(ring->buffer_bytes, staging_bytes(machine.type(stored_value(d))));
  });
  const std::int64_t room =
      (machine.info.target->shared_bytes_per_cta - round_up(end, kStagingAlignment)) / groups;
  for (StagingRing& ring : rings)
    ring.buffers = ring.channel
                       ? std::min(ring.channel->slots, static_cast<int>(ring.stores.size()))
                       : buffers_in(room, ring);
  return rings;
}

}  // namespace tegula::ir
