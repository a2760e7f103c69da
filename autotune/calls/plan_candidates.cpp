#include "autotune/calls/plan_candidates.h"

namespace tegula::autotune {

Prepared PlanCandidates::compile(int candidate, const Stream& stream) {
  DecisionScope::Given given = given_;
  given[decision_.key()] = texts_[static_cast<std::size_t>(candidate)];
  const DecisionScope scope(given);
  auto plan = call_.build();
  Prepared out;
  for (const dsl::PlanStep& step : plan->steps) add_code(out, *step.kernel, stream.device());
  const std::lock_guard lock(mutex_);
  plans_[candidate] = std::move(plan);
  return out;
}

void PlanCandidates::run(int candidate, const Stream& stream, std::span<const dsl::HostArg> args) {
  call_.run(*plans_.at(candidate), stream, args);
}

}  // namespace tegula::autotune
