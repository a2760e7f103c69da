#pragma once
// A call of the library as one plan of data: what it would launch, recorded instead of run.
#include <deque>
#include <span>
#include <string_view>

#include "dsl/call_plan.h"
#include "dsl/plan_recorder.h"

namespace tegula::dsl {

/// The plan of a kernel's launch with these arguments, which are its slots. The kernel is compiled
/// for the target that `mode` names; needs no GPU. Throws CompileError for one that captures
/// Scalars or Tensors.
CallPlan plan_of_launch(KernelInstance& kernel, PlanRecorder::Mode mode,
                        std::span<const HostArg> args);

/// While it lives, launches of this thread are recorded: those of plans and of kernels that are
/// called directly. Kernels are compiled for the target of this name.
class CallRecording {
 public:
  /// `callable` is named in messages. `args` are those of the call, tensors without memory, each in
  /// addresses of its own: by these the arguments of launches are found again.
  CallRecording(std::string_view callable, std::string_view target, std::span<const HostArg> args);
  ~CallRecording();
  CallRecording(const CallRecording&) = delete;
  CallRecording& operator=(const CallRecording&) = delete;
  static CallRecording* current();

  std::string_view target() const { return target_; }
  /// Adds the launches of a plan that is called with `args`. Throws CompileError where one of them
  /// is neither a tensor of the recorded call, nor a view of one, nor a number.
  void add(const CallPlan& plan, std::span<const HostArg> args);
  /// Adds a kernel's launch.
  void add(KernelInstance& kernel, std::span<const HostArg> args);

  /// Everything that was recorded: its slots are the arguments of the call, all its views fixed.
  CallPlan take() { return std::move(plan_); }

 private:
  struct Slots;
  [[noreturn]] void refuse(std::string_view what) const;
  StepArg argument(const HostArg& arg);
  int slot_of(const Tensor& tensor);
  int make(MadeTensor made, Tensor now);
  int add_made(const MadeTensor& made, Slots& slots);

  std::string_view callable_, target_;
  std::span<const HostArg> args_;
  CallPlan plan_;
  std::deque<Tensor> now_;  ///< the made tensors
  CallRecording* outer_;
};

}  // namespace tegula::dsl
