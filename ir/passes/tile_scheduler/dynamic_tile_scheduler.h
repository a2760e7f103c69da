#pragma once
// Dynamic tile scheduler: tile ids come one at a time from a counter in memory or, for clusters of
// two that multicast, round-robin. The producer thread fetches an id while the previous tile runs,
// computes the tile's metadata, and passes both to every warp through a channel of two slots. This
// is the protocol of the dynamic persistent schedulers of FlashAttention-3 and CUTLASS.
#include "ir/passes/mma_loop/channel_ring.h"
#include "ir/passes/tile_scheduler/tile_metadata.h"

namespace tegula::ir {

class DynamicTileScheduler {
 public:
  /// Initializes the channel and its slots at the insertion point, and adds a counter as a
  /// parameter unless tiles are taken `in_turn`.
  DynamicTileScheduler(Builder& b, Value total, const TileMetadata& facts, bool in_turn);

  /// Inserts an assumption that the tile number is not negative, however it was computed.
  static void assume_counted(Builder& b, Value tile);

  RingPosition next(Builder& b, RingPosition position) const { return channel_.next(b, position); }
  /// Fetches the id of the tile after `tile`, minus the number of programs. The result is used
  /// later.
  Value fetch(Builder& b, Value tile) const;
  /// Passes the fetched number and its tile's metadata to every warp through the slot `position`.
  std::vector<Value> broadcast_tile(Builder& b, Value fetched, RingPosition position) const;

 private:
  std::vector<Value> by_producer(Builder& b, Value fetched, RingPosition position) const;

  ChannelRing channel_;
  const TileMetadata* facts_;
  Value total_, programs_, counter_, words_, producer_thread_;
};

}  // namespace tegula::ir
