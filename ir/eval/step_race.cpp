// The elements that the steps of an independent loop have touched.
#include "ir/eval/step_race.h"

namespace tegula::ir::interp {

std::optional<OpId> StepRaces::touch(std::uintptr_t element, StepUse use, OpId op) {
  std::optional<OpId> found;
  Element& e = elements_[element];
  for (const StepUse other : {StepUse::Write, StepUse::Read, StepUse::Atomic}) {
    // Reads meet reads, and atomic operations meet each other.
    if (other == use && use != StepUse::Write) continue;
    const First& earlier = e.first[static_cast<std::size_t>(other)];
    if (earlier.step != 0 && earlier.step != step_ && !found) found = earlier.op;
  }
  First& mine = e.first[static_cast<std::size_t>(use)];
  if (mine.step == 0) mine = {step_, op};
  return found;
}

}  // namespace tegula::ir::interp
