#pragma once
// The configurations of one decision of a library's call as candidates: each is a plan, which is
// compiled by all threads and run in this process on copies of the call's tensors.
#include <memory>
#include <string>
#include <vector>

#include "autotune/calls/decision.h"
#include "autotune/race/measure.h"
#include "autotune/user/launch_measure.h"
#include "dsl/planned_callable.h"
#include "tegula/tuning.h"

namespace tegula::autotune {

class PlanMeasure : public Measure {
 public:
  /// Candidate i is the call with texts[i] for `decision`, other decisions as in `given`. `plan` is
  /// any plan of the call. All but the plan must outlive this.
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
  double reference_ns() const { return launches_->reference_ns(); }

 private:
  using Plan = std::shared_ptr<const dsl::CallPlan>;
  void add_tensors(const dsl::CallPlan& plan);
  Prepared compile(int candidate, Plan& made) const;
  void load(int candidate, const Plan& plan);

  const dsl::FirstCall& call_;
  const Decision& decision_;
  const std::vector<std::string>& texts_;
  const DecisionScope::Given& given_;
  const TuneOptions& options_;
  MeasuredTensors tensors_;
  std::vector<int> tensor_of_;  ///< the tensor of each argument, -1 where it has none
  std::unique_ptr<LaunchMeasure> launches_;
};

}  // namespace tegula::autotune
