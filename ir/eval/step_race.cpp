// Tracks the elements that the iterations of an independent loop access.
#include "ir/eval/step_race.h"

namespace tegula::ir::interp {

std::optional<OpId> StepRaces::touch(std::uintptr_t element, StepUse use, OpId op) {
  std::optional<OpId> found;
  Element& e = elements_[element];
  for (const StepUse other : {StepUse::Write, StepUse::Read, StepUse::Atomic}) {
    // Two reads do not conflict, nor do two atomic operations.
    if (other == use && use != StepUse::Write) continue;
    const First& earlier = e.first[static_cast<std::size_t>(other)];
    if (earlier.step != 0 && earlier.step != step_ && !found) found = earlier.op;
  }
  First& mine = e.first[static_cast<std::size_t>(use)];
  if (mine.step == 0) mine = {step_, op};
  return found;
}

}  // namespace tegula::ir::interp
