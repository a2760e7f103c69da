#pragma once
// The launches of a call's plan as data, so that another process can run them.
#include <span>
#include <vector>

#include "autotune/user/launch_measure.h"
#include "dsl/call_plan.h"
#include "dsl/planned_callable.h"

namespace tegula::autotune {

/// The tensors of a call, each once, and which of them each argument is.
class CallTensors {
 public:
  explicit CallTensors(const dsl::FirstCall& call) : call_(call) {}

  /// Adds the arguments, with the use that any plan of the call makes of them. A tensor that is
  /// given twice is copied once, as one that is read and written.
  void add_arguments(const dsl::CallPlan& plan);
  /// A plan of the call as a candidate: what it captured joins the tensors, views and scratch
  /// memory are laid out in them and in memory of the candidate's own.
  LoadedCandidate candidate_of(const dsl::CallPlan& plan);

  const MeasuredTensors& tensors() const { return tensors_; }

 private:
  struct Slot;
  int add(const Tensor& tensor, detail::ViewAccess access, std::size_t position);
  Slot argument(const dsl::HostArg& arg, int tensor) const;
  std::vector<Slot> slots_of(const dsl::CallPlan& plan, LoadedCandidate& out);

  const dsl::FirstCall& call_;
  MeasuredTensors tensors_;
  std::vector<int> tensor_of_;  ///< the tensor of each argument, -1 where it has none
};

}  // namespace tegula::autotune
