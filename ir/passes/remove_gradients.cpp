// Removes the slopes that functions state for their derivatives.
//
// Before:  r = with_gradient v, x, slope
// After:   v wherever r was used; ops that only the slope needed are gone
#include <vector>

#include "ir/erase_unused.h"
#include "ir/pipeline.h"

namespace tegula::ir {

bool remove_gradients(Kernel& kernel, PassContext&) {
  const std::vector<OpId> found = ops_where(
      kernel, kernel.body(), [&](OpId op) { return kernel[op].opcode == Opcode::WithGradient; });
  for (OpId op : found) {
    const Value value = kernel[op].operands[0], slope = kernel[op].operands[2];
    kernel.replace_all_uses(kernel[op].results[0], value);
    kernel.erase(op);
    erase_unused(kernel, slope);
  }
  return !found.empty();
}

}  // namespace tegula::ir
