#include "autotune/calls/plan_measure.h"

#include <fmt/format.h>

#include "autotune/user/compiled_candidates.h"
#include "autotune/worker/isolated_measure.h"
#include "support/warnings.h"
#include "tegula/error.h"

namespace tegula::autotune {

CallDecisions decisions_of(const dsl::FirstCall& call, const DecisionScope::Given& given) {
  const DecisionScope scope(given);
  CallDecisions out{call.build(), scope.noted()};
  if (out.plan->writes_captures) out.decisions.clear();
  return out;
}

PlanMeasure::PlanMeasure(const dsl::FirstCall& call, const dsl::CallPlan& plan,
                         const Decision& decision, const std::vector<std::string>& texts,
                         const DecisionScope::Given& given, const TuneOptions& options)
    : call_(call),
      decision_(decision),
      texts_(texts),
      given_(given),
      options_(options),
      tensors_(call),
      launches_(make_launch_measure(tensors_.tensors(), call.stream().device(),
                                    {options.may_change_bits || !decision.is_reproducible})) {
  tensors_.add_arguments(plan);
}

Prepared PlanMeasure::compile(int candidate, Plan& made) const {
  Prepared out;
  try {
    const WarningsMuted muted;  // warnings of a losing candidate are irrelevant
    DecisionScope::Given given = given_;
    given[decision_.key()] = texts_[static_cast<std::size_t>(candidate)];
    const DecisionScope scope(given);
    made = call_.build();
    for (const dsl::PlanStep& step : made->steps)
      add_code(out, *step.kernel, call_.stream().device());
  } catch (const Error& e) {
    if (candidate == 0) throw;  // an error of the call itself
    out.verdict = Verdict::refused;
    out.why = e.what();
  }
  return out;
}

void PlanMeasure::load(int candidate, const Plan& plan, Prepared& out) {
  try {
    launches_->load(candidate, tensors_.candidate_of(*plan));
  } catch (const Error& e) {
    if (candidate == 0) throw;
    out.verdict = Verdict::refused;
    out.why = e.what();
  }
}

std::vector<Prepared> PlanMeasure::prepare(std::span<const int> candidates) {
  std::vector<Prepared> out(candidates.size());
  std::vector<Plan> made(candidates.size());
  on_all_threads(candidates.size(),
                 [&](std::size_t i) { out[i] = compile(candidates[i], made[i]); });
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (out[i].verdict == Verdict::ok) load(candidates[i], made[i], out[i]);
  if (options_.progress)
    options_.progress(fmt::format("compiled {} more configurations", candidates.size()));
  return out;
}

}  // namespace tegula::autotune
