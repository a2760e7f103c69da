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
  /// iteration.
  void prologue(Builder& b, int steps) const;
  /// Copies the operands of the iteration at `iv`, a value of the induction variable, into `slot`
  /// of every ring. Past the end of the loop it copies nothing, but still commits a group, so that
  /// the counts of waits stay valid.
  void copy(Builder& b, Value iv, Value slot) const;
  /// Does the same for the iteration `steps` iterations after that at `iv`.
  void copy_ahead(Builder& b, Value iv, int steps, Value slot) const;
  Value next(Builder& b, Value slot) const;
  Value back(Builder& b, Value slot, int steps) const;

 private:
  void place_indices(OperandLoad& load);
  Value placed(Value tile, const LinearLayout* lines) const;

  Kernel& k_;
  OpId loop_;
  RegionId body_;
  int slots_;
  bool may_pass_;  ///< the index of a copy ahead may overflow
  std::vector<OperandLoad> loads_;
};

}  // namespace tegula::ir
