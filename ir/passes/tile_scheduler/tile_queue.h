#pragma once
// The numbers of a program's tiles, one by one from a counter in memory: the leader fetches a
// number while the tile before it runs, finds out what is known of that tile, and hands both to
// every warp through a channel of two slots. (The protocol of FlashAttention-3's and CUTLASS's
// dynamic persistent schedulers.)
#include "ir/passes/mma_loop/channel_ring.h"
#include "ir/passes/tile_scheduler/tile_facts.h"

namespace tegula::ir {

class TileQueue {
 public:
  /// The counter as a parameter, the channel and the slots, made ready at the builder's point.
  TileQueue(Builder& b, Value total, const TileFacts& facts);

  /// States that the number, however it came about, counts from 0.
  static void assume_counted(Builder& b, Value tile);

  static RingPosition first(Builder& b) { return ChannelRing::first(b); }
  RingPosition next(Builder& b, RingPosition at) const { return channel_.next(b, at); }
  /// The fetch of the next number, not looked at yet.
  Value fetch(Builder& b) const;
  /// The number that was fetched and its tile's facts, through the slot `at`, to every warp.
  std::vector<Value> hand_over(Builder& b, Value fetched, RingPosition at) const;

 private:
  std::vector<Value> by_leader(Builder& b, Value fetched, RingPosition at) const;

  ChannelRing channel_;
  const TileFacts* facts_;
  Value total_, programs_, counter_, words_, leader_;
};

}  // namespace tegula::ir
