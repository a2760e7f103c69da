#pragma once
// The recorder turns the calls of a building function into a plan.
#include <deque>
#include <memory>
#include <span>
#include <string_view>

#include "dsl/call_plan.h"

namespace tegula::dsl {

class PlannedCallable;

class PlanRecorder {
 public:
  struct Mode {
    bool looks_at_launches = false;  ///< nothing is compiled; each launch compiles by itself
    /// The target to compile for, without a GPU; if empty, the device's own.
    std::string_view target = {};
    /// Kernels compiled for a target use the values of tune() that a call on it would use.
    bool takes_winners = false;
  };
  PlanRecorder(PlannedCallable& callable, Device device, std::span<const HostArg> args, Mode mode);

  Device device() const { return device_; }
  std::size_t size() const { return args_.size(); }
  const Tensor& tensor(int slot) const;
  PlanSlot make(MadeTensor made);
  void launch(const std::shared_ptr<KernelInstance>& kernel,
              std::span<const PlanBuilder::Given> given);

  CallPlan take() { return std::move(plan_); }

 private:
  HostArg argument(const PlanBuilder::Given& given) const;
  void compile(KernelInstance& kernel, std::span<const HostArg> args, CallArgs& run_time,
               PlanStep& step) const;
  int base_of(int slot) const;
  void keep_apart(const KernelInstance& kernel, const CallArgs& args, const PlanStep& step);
  void note_access(const KernelInstance& kernel, const CallArgs& args, const PlanStep& step);

  PlannedCallable& callable_;
  Device device_;
  std::span<const HostArg> args_;
  Mode mode_;
  CallPlan plan_;
  std::vector<bool> is_used_;  ///< arguments that a launch has used
  std::deque<Tensor> now_;     ///< the made tensors in this call; a deque keeps their addresses
};

}  // namespace tegula::dsl
