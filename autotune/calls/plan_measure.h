#pragma once
// Candidates for one decision of a library call. Each candidate is a plan of the call. All threads
// compile candidates in parallel, and a LaunchMeasure runs them on copies of the call's tensors.
#include <memory>
#include <string>
#include <vector>

#include "autotune/calls/decision.h"
#include "autotune/calls/plan_launches.h"
#include "autotune/race/measure.h"
#include "autotune/user/launch_measure.h"
#include "dsl/planned_callable.h"
#include "tegula/tuning.h"

namespace tegula::autotune {

/// A plan of a call with given decisions, and the decisions that it makes. The plan is null if its
/// kernels write captured tensors, whose contents could not be restored.
struct CallDecisions {
  std::shared_ptr<const dsl::CallPlan> plan;
  std::vector<Decision> decisions;
};
CallDecisions decisions_of(const dsl::FirstCall& call, const DecisionScope::Given& given);

class PlanMeasure : public Measure {
 public:
  /// Candidate i is the call with texts[i] for `decision` and `given` for other decisions. `plan`
  /// is any plan of the call. All arguments except `plan` must outlive this object.
  PlanMeasure(const dsl::FirstCall& call, const dsl::CallPlan& plan, const Decision& decision,
              const std::vector<std::string>& texts, const DecisionScope::Given& given,
              const TuneOptions& options);

  std::vector<Prepared> prepare(std::span<const int> candidates) override;
  CheckResult try_once(int candidate) override { return launches_->try_once(candidate); }
  CheckResult check(int candidate) override { return launches_->check(candidate); }
  Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) override {
    return launches_->round(candidates, repetitions, seed);
  }
  void forget(int candidate) override {
    if (candidate != 0) launches_->forget(candidate);
  }
  double reference_ns() const override { return launches_->reference_ns(); }

 private:
  using Plan = std::shared_ptr<const dsl::CallPlan>;
  Prepared compile(int candidate, Plan& made) const;
  void load(int candidate, const Plan& plan, Prepared& out);

  const dsl::FirstCall& call_;
  const Decision& decision_;
  const std::vector<std::string>& texts_;
  const DecisionScope::Given& given_;
  const TuneOptions& options_;
  CallTensors tensors_;
  std::unique_ptr<LaunchMeasure> launches_;
};

}  // namespace tegula::autotune
