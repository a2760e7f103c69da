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
    OrderWait,
    OrderArrive
  };
  Kind kind;
  OpId op;
  SlotRef at = {};                  ///< the channel; of a copy the ring
  SlotRef channel = {};             ///< of a copy: where its bytes are counted
  std::int64_t number = 0;          ///< parity of a wait, bytes, products that a wait leaves,
                                    ///< the group whose turn it is
  std::vector<SlotRef> reads = {};  ///< of a product, or of a read that is over at once
  /// In a cluster of two. Of a release: whom it tells. Of a copy: Both where it brings half the box
  /// to each program.
  enum class SignalScope : std::uint8_t { OwnCta, BothCtas, OwnCtaTwice };
  SignalScope signals = SignalScope::OwnCta;
  int tile = 0;  ///< of those that groups take in turn
};

/// Warps whose events are traced: the consumers, the producer, or a thread that is both.
enum class ChannelRole : std::uint8_t { Consumer, Producer, Unified };

/// Extents that a kernel is followed for.
struct ChannelExtents {
  std::int64_t extent = 0;  ///< of every dimension that is not known
  std::int64_t scalar = 0;  ///< numbers given at launch; loaded ones go on from it by `extent` each
  int outer_trips =
      3;         ///< of loops around those with products, and over tiles; these run to their end
  int rank = 0;  ///< of the program in the one cluster that there is
  /// Warps that compute: of so many groups, which take tiles in turn, this one.
  int group = 0, groups = 1;
};

/// Branches whose condition depends on tiles do nothing to channels and are passed over; so are
/// loops without channels.
std::vector<ChannelEvent> channel_trace(const Kernel& machine, ChannelRole role,
                                        const ChannelExtents& extents);

}  // namespace tegula::ir
