#pragma once
// Collects the events of a role on channels and rings in order, by interpreting the machine form
// with numbers in place of tiles for given extents.
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// A location in shared memory: a ring or a channel, and the slot in it.
struct SlotRef {
  Value of;
  std::int64_t slot = 0;
  friend bool operator==(const SlotRef&, const SlotRef&) = default;
};

struct ChannelEvent {
  enum class Kind : std::uint8_t {
    Wait,
    Release,
    Expect,
    Copy,
    Mma,
    MmaWait,
    Read,
    Store,
    AsyncCommit,
    AsyncWait,
    Barrier,
    OrderWait,
    OrderArrive
  };
  Kind kind;
  OpId op;
  SlotRef at = {};                  ///< the channel; for a load, its ring; for a store, its slot
  SlotRef channel = {};             ///< channel that counts the bytes of a load
  std::int64_t number = 0;          ///< of a Wait: parity; of an Expect or a Copy: bytes; of an
                                    ///< MmaWait or AsyncWait: MMAs or groups left in flight; of a
                                    ///< Store: 1 if by cp.async; of OrderWait, OrderArrive: a
                                    ///< warpgroup; of a Barrier: 1 if it publishes to async proxy
  std::vector<SlotRef> reads = {};  ///< slots that an MMA or a load from the ring reads
  /// Scope in a cluster of two. For a release: the CTAs that it signals. For a load: BothCtas if it
  /// loads half of the box for each CTA.
  enum class SignalScope : std::uint8_t { OwnCta, BothCtas, OwnCtaTwice };
  SignalScope signals = SignalScope::OwnCta;
  int tile = 0;  ///< number of the tile, in ping-pong mode
};

/// Warps whose events are traced: consumers, producer, or a thread that is both.
enum class ChannelRole : std::uint8_t { Consumer, Producer, Unified };

/// Extents for which a kernel is traced.
struct ChannelExtents {
  std::int64_t extent = 0;  ///< extent of every dimension that is not constant
  std::int64_t scalar = 0;  ///< launch scalars; loaded ones continue from it in steps of `extent`
  int outer_trips = 3;  ///< trips of tile loops and other outer loops; mainloops run to their end
  int rank = 0;         ///< rank of the CTA in the only cluster
  /// For consumers in ping-pong mode: the traced warpgroup, and the number of warpgroups.
  int group = 0, groups = 1;
};

/// Returns the events of `role`. Branches whose condition depends on tiles do not affect channels
/// and are skipped, as are loops without channels.
std::vector<ChannelEvent> channel_trace(const Kernel& machine, ChannelRole role,
                                        const ChannelExtents& extents);

}  // namespace tegula::ir
