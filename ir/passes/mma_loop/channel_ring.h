#pragma once
// A ring of slots that the producer thread fills by TMA and the warps read: operand tiles in shared
// memory and two channels, full (loads have landed) and empty (slots have been read). Iterations
// are numbered through the kernel's life; a position is an iteration's slot and the parity of its
// phase. (PTX ISA, "mbarrier"; CUTLASS, PipelineTmaAsync.)
#include <vector>

#include "ir/passes/mma_loop/operand_loads.h"

namespace tegula::ir {

struct RingPosition {
  Value slot, phase;
};

class ChannelRing {
 public:
  /// `in_step` (i1), if given: the CTAs of the cluster multicast loads, and the peer has a tile. It
  /// is known where the ring is filled and released.
  ChannelRing(int slots, std::vector<OperandLoad> loads, Value in_step = {})
      : slots_(slots), loads_(std::move(loads)), is_multicast_(in_step) {}

  int slots() const { return slots_; }
  const std::vector<OperandLoad>& loads() const { return loads_; }

  /// Creates the channels at the builder's point. Those of all rings come before the slots of any:
  /// scratch memory of the lowering may lie over slots, never over mbarriers.
  void allocate_channels(Builder& b);
  void allocate_slots(Builder& b);
  /// `count` words for each slot, kept like the mbarriers next to them.
  Value allocate_words(Builder& b, std::size_t count) const;

  static RingPosition first(Builder& b) { return {b.i32(0), b.i32(0)}; }
  RingPosition next(Builder& b, RingPosition at) const;
  RingPosition back(Builder& b, RingPosition at, int steps) const;
  /// The position `steps` further on, of any integer type.
  RingPosition after(Builder& b, RingPosition at, Value steps) const;

  /// Issues the loads of one iteration by the producer thread, after the slot's reads of phase
  /// `free`
  /// (`free` may be none: the slot is fresh).
  void fill(Builder& b, IterationOffsets& offsets, Value slot, Value free) const;
  /// Writes numbers into a slot's words by the producer thread, after the slot's reads of phase
  /// `free`.
  void put(Builder& b, Value words, std::span<const Value> numbers, Value slot, Value free) const;
  void wait(Builder& b, RingPosition at) const {
    b.effect(Opcode::ChannelWait, {full_, at.slot, at.phase});
  }
  /// Releases a slot. `generic_proxy`: threads have read it by loads, not wgmma.
  void release(Builder& b, Value slot, Value condition, bool generic_proxy = false) const;

 private:
  int slots_;
  std::vector<OperandLoad> loads_;
  Value is_multicast_;
  Value full_, empty_;
};

}  // namespace tegula::ir
