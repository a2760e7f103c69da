#pragma once
// A library call as one plan of data: its launches are recorded instead of run.
#include <deque>
#include <span>
#include <string_view>

#include "dsl/call_plan.h"
#include "dsl/plan_recorder.h"

namespace tegula::dsl {

/// Returns the plan of a kernel's launch with these arguments, which are its slots. The kernel is
/// compiled for the target of `mode`; no GPU is needed. Throws CompileError if the kernel captures
/// Scalars or Tensors.
CallPlan plan_of_launch(KernelInstance& kernel, PlanRecorder::Mode mode,
                        std::span<const HostArg> args);

/// Records this thread's launches during its lifetime: those of plans, and of kernels that are
/// called directly. Kernels are compiled for the target of this name.
class CallRecording {
 public:
  /// `callable` is the name for messages. `args` are those of the call: tensors without memory,
  /// each with different addresses, by which the arguments of launches are identified.
  CallRecording(std::string_view callable, std::string_view target, std::span<const HostArg> args);
  ~CallRecording();
  CallRecording(const CallRecording&) = delete;
  CallRecording& operator=(const CallRecording&) = delete;
  static CallRecording* current();

  std::string_view target() const { return target_; }
  /// Adds the launches of a plan that is called with `args`. Throws CompileError if one of them is
  /// neither a tensor of the recorded call, nor a view of one, nor a number.
  void add(const CallPlan& plan, std::span<const HostArg> args);
  /// Adds a kernel's launch.
  void add(KernelInstance& kernel, std::span<const HostArg> args);

  /// Returns everything recorded: its slots are the arguments of the call, and all its views are
  /// fixed.
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
