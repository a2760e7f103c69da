#pragma once
// The configurations of one decision of a library's call as candidates: each is a plan.
#include <map>
#include <memory>
#include <mutex>

#include "autotune/calls/decision.h"
#include "autotune/user/call_candidates.h"
#include "dsl/planned_callable.h"

namespace tegula::autotune {

class PlanCandidates : public CallCandidates {
 public:
  /// Candidate i is the call with texts[i] for `decision`, the others as in `given`. All must
  /// outlive this.
  PlanCandidates(const dsl::FirstCall& call, const Decision& decision,
                 const std::vector<std::string>& texts, const DecisionScope::Given& given,
                 std::span<const tegula::detail::ViewAccess> access)
      : call_(call), decision_(decision), texts_(texts), given_(given), access_(access) {}

  Prepared compile(int candidate, const Stream& stream) override;
  void run(int candidate, const Stream& stream, std::span<const dsl::HostArg> args) override;
  void forget(int candidate) override { plans_.erase(candidate); }
  std::span<const tegula::detail::ViewAccess> access() const override { return access_; }

 private:
  const dsl::FirstCall& call_;
  const Decision& decision_;
  const std::vector<std::string>& texts_;
  const DecisionScope::Given& given_;
  std::span<const tegula::detail::ViewAccess> access_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<const dsl::CallPlan>> plans_;
};

}  // namespace tegula::autotune
