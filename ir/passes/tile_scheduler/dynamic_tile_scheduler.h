#pragma once
// Dynamic tile scheduler: tile ids come one by one from a counter in memory, or, to clusters of two
// that multicast, in turn. The producer thread fetches an id while the previous tile runs, computes
// the tile's metadata, and hands both to every warp through a channel of two slots. (The protocol
// of FlashAttention-3's and CUTLASS's dynamic persistent schedulers.)
#include "ir/passes/mma_loop/channel_ring.h"
#include "ir/passes/tile_scheduler/tile_metadata.h"

namespace tegula::ir {

class DynamicTileScheduler {
 public:
  /// The channel and the slots, made ready at the builder's point; without `in_turn` a counter, as
  /// a parameter.
  DynamicTileScheduler(Builder& b, Value total, const TileMetadata& facts, bool in_turn);

  /// States that the number, however it came about, counts from 0.
  static void assume_counted(Builder& b, Value tile);

  RingPosition next(Builder& b, RingPosition at) const { return channel_.next(b, at); }
  /// Fetches the id of the tile behind `tile`, less the number of programs; it is used later.
  Value fetch(Builder& b, Value tile) const;
  /// The number that was fetched and its tile's facts, through the slot `at`, to every warp.
  std::vector<Value> broadcast_tile(Builder& b, Value fetched, RingPosition at) const;

 private:
  std::vector<Value> by_producer(Builder& b, Value fetched, RingPosition at) const;

  ChannelRing channel_;
  const TileMetadata* facts_;
  Value total_, programs_, counter_, words_, producer_thread_;
};

}  // namespace tegula::ir
