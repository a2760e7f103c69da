#pragma once
// Dynamic tile scheduler: tile ids come one by one from a counter in memory. The producer thread
// fetches an id while the previous tile runs, computes the tile's metadata, and hands both to every
// warp through a channel of two slots. (The protocol of FlashAttention-3's and CUTLASS's dynamic
// persistent schedulers.)
#include "ir/passes/mma_loop/channel_ring.h"
#include "ir/passes/tile_scheduler/tile_metadata.h"

namespace tegula::ir {

class DynamicTileScheduler {
 public:
  /// The counter as a parameter, the channel and the slots, made ready at the builder's point.
  DynamicTileScheduler(Builder& b, Value total, const TileMetadata& facts);

  /// States that the number, however it came about, counts from 0.
  static void assume_counted(Builder& b, Value tile);

  static RingPosition first(Builder& b) { return ChannelRing::first(b); }
  RingPosition next(Builder& b, RingPosition at) const { return channel_.next(b, at); }
  /// Fetches the next tile id; its value is used later.
  Value fetch(Builder& b) const;
  /// The number that was fetched and its tile's facts, through the slot `at`, to every warp.
  std::vector<Value> broadcast_tile(Builder& b, Value fetched, RingPosition at) const;

 private:
  std::vector<Value> by_producer(Builder& b, Value fetched, RingPosition at) const;

  ChannelRing channel_;
  const TileMetadata* facts_;
  Value total_, programs_, counter_, words_, producer_thread_;
};

}  // namespace tegula::ir
