// Makes the meaning of absence in loops explicit: a carry keeps its elements where a step's value
// lacks elements that may differ from step to step, and lacks from its first value on what its
// values lack in every step (ir/passes/absence/absence_carry.cpp). The interpreter runs this pass,
// too, so that the meaning is the same on every device.

#include "ir/erase_unused.h"
#include "ir/loop.h"
#include "ir/passes/absence/absence.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// Returns true if loops carry values and something may be absent.
bool has_varying_carries(const Kernel& kernel) {
  const auto carries = [&](OpId op) { return is_loop(kernel[op]) && !kernel[op].results.empty(); };
  const auto loads = [&](OpId op) { return kernel[op].is(Opcode::LoadView, Opcode::Crop); };
  return any_op(kernel, kernel.body(), carries) && any_op(kernel, kernel.body(), loads);
}

}  // namespace

bool carry_presence(Kernel& kernel, PassContext&) {
  if (!has_varying_carries(kernel)) return false;
  // The analysis adds and moves ops: run it on a copy first, and on the kernel only if necessary.
  Kernel copy = clone(kernel);
  if (!Absence(copy, true).rewrote_carries()) return false;
  const std::size_t before = kernel.op_count();
  const Absence absence(kernel, true);
  erase_unused(kernel,
               ops_where(kernel, kernel.body(), [&](OpId op) { return op.index >= before; }));
  return true;
}

}  // namespace tegula::ir
