// The meaning of absence in loops, written out: a carry keeps its elements where what a step gives
// lacks some that may be others in the next step, and has what its values lack in every step from
// its first value on (ir/passes/absence/absence_carry.cpp). The interpreter runs this pass, too, so
// that it is the meaning on every device.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/loop.h"
#include "ir/passes/absence/absence.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// Ops from number `first` on whose results nothing needs.
void erase_unused(Kernel& k, std::size_t first) {
  std::unordered_map<Value, int> uses;
  std::vector<OpId> made;
  walk(k, k.body(), [&](OpId op) {
    for (Value v : k[op].operands) ++uses[v];
    if (op.index >= first && info(k[op].opcode).has(kPure)) made.push_back(op);
  });
  // Later ones are computed from earlier ones, but for the limits at the head.
  for (bool erased = true; erased;) {
    erased = false;
    for (std::size_t i = made.size(); i-- > 0;) {
      const OpId op = made[i];
      if (std::ranges::any_of(k[op].results, [&](Value v) { return uses[v] > 0; })) continue;
      for (Value v : k[op].operands) --uses[v];
      k.erase(op);
      made.erase(made.begin() + static_cast<std::ptrdiff_t>(i));
      erased = true;
    }
  }
}

/// Loops carry something, and something may be absent.
bool has_varying_carries(const Kernel& kernel) {
  bool loads = false, carries = false;
  walk(kernel, kernel.body(), [&](OpId op) {
    const OpData& d = kernel[op];
    carries = carries || (is_loop(d) && !d.results.empty());
    loads = loads || d.is(Opcode::LoadView, Opcode::Crop);
  });
  return loads && carries;
}

}  // namespace

bool carry_presence(Kernel& kernel, PassContext&) {
  if (!has_varying_carries(kernel)) return false;
  // Following absence adds and moves ops: a copy is followed, and the kernel only if need be.
  Kernel copy = clone(kernel);
  if (!Absence(copy, true).rewrote_carries()) return false;
  const std::size_t before = kernel.op_count();
  const Absence absence(kernel, true);
  erase_unused(kernel, before);
  return true;
}

}  // namespace tegula::ir
