#pragma once
// A ring of slots that the leader fills by TMA and the warps read: rings of tiles in shared memory
// and two channels, one for what has landed, one for what has been read. Steps are numbered through
// the kernel's life; a position is a step's slot and the parity of its round through the ring. (PTX
// ISA, "mbarrier"; CUTLASS, PipelineTmaAsync.)
#include <vector>

#include "ir/passes/mma_loop/operand_loads.h"

namespace tegula::ir {

struct RingPosition {
  Value slot, phase;
};

class ChannelRing {
 public:
  /// `in_step` (i1), if given: the programs of the cluster share loads, and the other one has a
  /// tile. Known where the ring is filled and released.
  ChannelRing(Kernel& k, int slots, std::vector<OperandLoad> loads, Value in_step = {})
      : k_(&k), slots_(slots), loads_(std::move(loads)), in_step_(in_step) {}

  int slots() const { return slots_; }
  const std::vector<OperandLoad>& loads() const { return loads_; }
  /// The load that brings this operand of a dot, or none.
  const OperandLoad* load_of(Value operand) const;

  /// The channels, made ready at the builder's point. Those of all rings come before the slots of
  /// any: scratch memory of the lowering may lie over slots, never over mbarriers.
  void allocate_channels(Builder& b);
  void allocate_slots(Builder& b);
  /// So many words for each slot, kept like the mbarriers beside them.
  Value allocate_words(Builder& b, std::size_t count) const;

  static RingPosition first(Builder& b) { return {b.i32(0), b.i32(0)}; }
  RingPosition next(Builder& b, RingPosition at) const;
  RingPosition back(Builder& b, RingPosition at, int steps) const;
  /// So many steps on, of any integer type.
  RingPosition after(Builder& b, RingPosition at, Value steps) const;

  /// By the leader: the copies of one step, once the slot's reads of phase `free` are over (`free`
  /// may be none: the slot is fresh).
  void fill(Builder& b, StepOffsets& offsets, Value slot, Value free) const;
  /// By the leader: numbers into a slot's words, once the slot's reads of phase `free` are over.
  void put(Builder& b, Value words, std::span<const Value> numbers, Value slot, Value free) const;
  void wait(Builder& b, RingPosition at) const {
    b.effect(Opcode::ChannelWait, {landed_, at.slot, at.phase});
  }
  /// `by_threads`: they have loaded what is in the slot, not wgmma.
  void release(Builder& b, Value slot, Value condition, bool by_threads = false) const;

 private:
  Kernel* k_;
  int slots_;
  std::vector<OperandLoad> loads_;
  Value in_step_;
  Value landed_, read_;
};

}  // namespace tegula::ir
