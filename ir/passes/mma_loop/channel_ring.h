#pragma once
// A ring of slots that the producer thread fills by TMA and the warps read. It has operand tiles in
// shared memory and two channels: full (loads have landed) and empty (slots have been read).
// Iterations are numbered across the whole kernel; a position is the slot of an iteration and the
// parity of its phase (PTX ISA, "mbarrier"; CUTLASS, PipelineTmaAsync).
#include <vector>

#include "ir/passes/mma_loop/operand_loads.h"

namespace tegula::ir {

struct RingPosition {
  Value slot, phase;
};

class ChannelRing {
 public:
  /// If `in_step` (i1) is given, the CTAs of the cluster multicast loads, and it is true if the
  /// peer CTA has a tile. It must dominate all fills and releases of the ring.
  ChannelRing(int slots, std::vector<OperandLoad> loads, Value in_step = {})
      : slots_(slots), loads_(std::move(loads)), is_multicast_(in_step) {}

  int slots() const { return slots_; }
  const std::vector<OperandLoad>& loads() const { return loads_; }

  /// Creates the channels at the insertion point. The channels of all rings precede the slots of
  /// any ring, because scratch memory of the lowering may overlap slots, but never mbarriers.
  void allocate_channels(Builder& b);
  void allocate_slots(Builder& b);
  /// Allocates `count` 64-bit words per slot. Scratch memory overlaps neither these nor mbarriers.
  Value allocate_words(Builder& b, std::size_t count) const;

  static RingPosition first(Builder& b) { return {b.i32(0), b.i32(0)}; }
  RingPosition next(Builder& b, RingPosition position) const;
  RingPosition back(Builder& b, RingPosition position, int steps) const;
  /// Returns the position `steps` iterations later. `steps` may have any integer type.
  RingPosition after(Builder& b, RingPosition position, Value steps) const;

  /// Issues the loads of one iteration from the producer thread, after the reads of the slot in
  /// phase `free`. A null `free` means that the slot has not been used yet.
  void fill(Builder& b, IterationOffsets& offsets, Value slot, Value free) const;
  /// Writes numbers into a slot's words from the producer thread, after the reads of the slot in
  /// phase `free`.
  void put(Builder& b, Value words, std::span<const Value> numbers, Value slot, Value free) const;
  void wait(Builder& b, RingPosition position) const {
    b.effect(Opcode::ChannelWait, {full_, position.slot, position.phase});
  }
  /// Releases a slot if `condition` holds. `generic_proxy`: threads have read it by loads, not
  /// wgmma.
  void release(Builder& b, Value slot, Value condition, bool generic_proxy = false) const;

 private:
  int slots_;
  std::vector<OperandLoad> loads_;
  Value is_multicast_;
  Value full_, empty_;
};

}  // namespace tegula::ir
