#pragma once
// Events of a role on channels and rings, in order: runs the machine form with numbers in place of
// tiles, for given extents.
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// A place in shared memory: a ring or a channel, and the position in it.
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
  SlotRef at = {};                  ///< the channel; of a load the ring, of a store its slot
  SlotRef channel = {};             ///< channel that counts the bytes of a load
  std::int64_t number = 0;          ///< parity of a wait, bytes, MMAs or groups of copies that a
                                    ///< wait leaves, 1 of a store by cp.async,
                                    ///< the next warpgroup in the order, 1 of a
                                    ///< barrier that publishes to the async proxy
  std::vector<SlotRef> reads = {};  ///< slots that an MMA or a load from the ring reads
  /// Scope in a cluster of two. Of a release: the CTAs that it signals. Of a load: BothCtas if it
  /// loads half the box for each.
  enum class SignalScope : std::uint8_t { OwnCta, BothCtas, OwnCtaTwice };
  SignalScope signals = SignalScope::OwnCta;
  int tile = 0;  ///< number of the tile, in ping-pong mode
};

/// Warps whose events are traced: the consumers, the producer, or a thread that is both.
enum class ChannelRole : std::uint8_t { Consumer, Producer, Unified };

/// Extents that a kernel is followed for.
struct ChannelExtents {
  std::int64_t extent = 0;  ///< extent of every dimension that is not known
  std::int64_t scalar = 0;  ///< numbers given at launch; loaded ones go on from it by `extent` each
  int outer_trips = 3;  ///< trips of tile loops and other outer loops; mainloops run to their end
  int rank = 0;         ///< rank of the CTA in the only cluster
  /// Consumers: the warpgroup that is followed, of so many in ping-pong mode.
  int group = 0, groups = 1;
};

/// Branches whose condition depends on tiles do nothing to channels and are passed over; so are
/// loops without channels.
std::vector<ChannelEvent> channel_trace(const Kernel& machine, ChannelRole role,
                                        const ChannelExtents& extents);

}  // namespace tegula::ir
