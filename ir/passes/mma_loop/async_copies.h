#pragma once
// Rings of slots in shared memory that the threads of a loop fill themselves, by cp.async, and read
// behind a barrier.
#include "ir/passes/mma_loop/operand_loads.h"

namespace tegula::ir {

class AsyncCopies {
 public:
  AsyncCopies(Kernel& k, OpId loop, int slots, std::vector<OperandLoad> loads);

  const std::vector<OperandLoad>& loads() const { return loads_; }
  int slots() const { return slots_; }

  /// Allocates the rings at the builder's point, and places index tiles in front of the loop.
  void allocate(Builder& b, PassContext& context);
  /// Copies the first `steps` iterations in front of the loop, each a group of its own.
  void prologue(Builder& b, int steps) const;
  /// Copies the operands of the iteration at `iv`, a value of the induction variable, into `slot`
  /// of every ring; none past the loop's end, but a group all the same, so that waits count right.
  void copy(Builder& b, Value iv, Value slot) const;
  /// The same for the iteration so many steps behind that at `iv`.
  void copy_ahead(Builder& b, Value iv, int steps, Value slot) const;
  Value next(Builder& b, Value slot) const;
  Value back(Builder& b, Value slot, int steps) const;

 private:
  void place_indices(const OperandLoad& load);

  Kernel& k_;
  OpId loop_;
  RegionId body_;
  int slots_;
  bool may_pass_;  ///< copies ahead may be for what lies beyond indices
  std::vector<OperandLoad> loads_;
};

}  // namespace tegula::ir
