#pragma once
// The recorder turns the calls of a building function into a plan.
#include <deque>
#include <memory>
#include <span>

#include "dsl/call_plan.h"

namespace tegula::dsl {

class PlannedCallable;

class PlanRecorder {
 public:
  /// `looks_at_launches`: nothing is compiled, each launch does that itself.
  PlanRecorder(PlannedCallable& callable, Device device, std::span<const HostArg> args,
               bool looks_at_launches);

  Device device() const { return device_; }
  std::size_t size() const { return args_.size(); }
  const Tensor& tensor(int slot) const;
  PlanSlot make(MadeTensor made);
  void launch(const std::shared_ptr<KernelInstance>& kernel,
              std::span<const PlanBuilder::Given> given);

  CallPlan take() { return std::move(plan_); }

 private:
  HostArg argument(const PlanBuilder::Given& given) const;
  int base_of(int slot) const;
  void keep_apart(const KernelInstance& kernel, const CallArgs& args, const PlanStep& step);
  void note_access(const KernelInstance& kernel, const CallArgs& args, const PlanStep& step);

  PlannedCallable& callable_;
  Device device_;
  std::span<const HostArg> args_;
  bool looks_at_launches_;
  CallPlan plan_;
  std::vector<bool> is_used_;  ///< arguments that a launch has taken
  std::deque<Tensor> now_;     ///< the made tensors in this call; deques leave them where they are
};

}  // namespace tegula::dsl
