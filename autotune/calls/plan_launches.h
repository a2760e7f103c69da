#pragma once
// The launches of a call's plan as data that another process can run.
#include <span>
#include <vector>

#include "autotune/user/launch_measure.h"
#include "dsl/call_plan.h"
#include "dsl/planned_callable.h"

namespace tegula::autotune {

/// The distinct tensors of a call, and the tensor of each argument.
class CallTensors {
 public:
  explicit CallTensors(const dsl::FirstCall& call) : call_(call) {}

  /// Adds the arguments. `plan` is any plan of the call and determines how each argument is
  /// accessed. A tensor that is passed twice with different accesses is copied once, as InOut.
  void add_arguments(const dsl::CallPlan& plan);
  /// Returns a plan of the call as a candidate. Captured tensors are added to the tensors of the
  /// call. Views refer to these tensors, or to scratch memory, which the candidate owns.
  LoadedCandidate candidate_of(const dsl::CallPlan& plan);

  const MeasuredTensors& tensors() const { return tensors_; }

 private:
  struct Slot;
  int add(const Tensor& tensor, detail::ViewAccess access, std::size_t position);
  Slot argument(const dsl::HostArg& arg, int tensor) const;
  std::vector<Slot> slots_of(const dsl::CallPlan& plan, LoadedCandidate& out);

  const dsl::FirstCall& call_;
  MeasuredTensors tensors_;
  std::vector<int> tensor_of_;  ///< tensor of each argument, or -1
};

}  // namespace tegula::autotune
