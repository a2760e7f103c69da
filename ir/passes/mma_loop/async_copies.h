#pragma once
// Rings of slots in shared memory that the threads of a loop fill by cp.async and read after a
// barrier.
#include "ir/passes/mma_loop/operand_loads.h"

namespace tegula::ir {

class AsyncCopies {
 public:
  AsyncCopies(Kernel& k, OpId loop, int slots, std::vector<OperandLoad> loads);

  const std::vector<OperandLoad>& loads() const { return loads_; }
  int slots() const { return slots_; }

  /// Allocates the rings at the insertion point, and converts index tiles from before the loop.
  void allocate(Builder& b, PassContext& context);
  /// Issues the copies of the first `steps` iterations before the loop, one commit group per
  /// iteration. What their index tiles need from memory is read before the first copy, so that the
  /// latencies of these reads overlap.
  void prologue(Builder& b, int steps) const;
  /// Copies the operands of the iteration at `iv`, a value of the induction variable, into `slot`
  /// of every ring. Past the end of the loop it copies nothing, but still commits a group, so that
  /// the counts of waits stay valid.
  void copy(Builder& b, Value iv, Value slot, std::span<const Value> entries = {}) const;
  /// Does the same for the iteration `steps` iterations after that at `iv`.
  void copy_ahead(Builder& b, Value iv, int steps, Value slot,
                  std::span<const Value> entries = {}) const;
  /// Reads what the index tiles of the iteration `steps` iterations after that at `iv` need from
  /// memory, for `copy` to use later: the latency of such reads is hidden if an iteration reads for
  /// the next one. Returns nothing if the index tiles read no memory in the loop.
  std::vector<Value> read_entries(Builder& b, Value iv, int steps) const;
  Value next(Builder& b, Value slot) const;
  Value back(Builder& b, Value slot, int steps) const;

 private:
  /// A read of memory in the slices of loads; equal reads count once.
  struct Entry {
    std::size_t load = 0;  ///< index of the first of these loads
    std::vector<OpId> reads;
  };

  void place_indices(OperandLoad& load);
  void find_entries();
  std::vector<Value> read_entries(Builder& b, IterationOffsets& offsets) const;
  Value iteration_after(Builder& b, Value iv, int steps) const;
  Value placed(Value tile, const LinearLayout* lines) const;

  Kernel& k_;
  OpId loop_;
  RegionId body_;
  int slots_;
  bool may_pass_;  ///< the index of a copy ahead may overflow
  std::vector<OperandLoad> loads_;
  std::vector<Entry> entries_;
};

}  // namespace tegula::ir
