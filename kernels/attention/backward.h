#pragma once
// Attention's backward calls: checks, plan and kernels.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "kernels/attention/backward_kernel.h"
#include "kernels/attention/group_lists.h"
#include "kernels/attention/heuristics.h"
#include "tegula/configured_kernel.h"
#include "tegula/kernels/attention.h"

namespace tegula::kernels {

/// Kernels of one element type.
template <class T>
struct BackwardKernels : RowKernels<T> {
  mutable tegula::detail::ConfiguredInstances<std::pair<BackwardTiles, CapturedSelection>> main;
  mutable std::atomic<dsl::KernelInstance*> latest = nullptr;  ///< of `main`
};

class AttentionBackward {
 public:
  /// Analyses the mask. Throws CompileError (T1662) for a specification without gradients.
  explicit AttentionBackward(std::shared_ptr<const AttentionHeuristics> facts);

  /// `lengths`: those of packed sequences, or null.
  void call(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
            const AttentionSaved& saved, const AttentionGradients& of,
            const AttentionInputGradients& into, const CuSeqlens* lengths) const;
  /// Returns a report on the last compiled main kernel, or an empty string if there is none.
  std::string explain(DType dtype) const;

 private:
  template <class T>
  friend class BackwardPlan;

  std::shared_ptr<const AttentionHeuristics> facts_;
  std::shared_ptr<const ScoreCaptures> captures_;
  std::shared_ptr<const BlockMask> of_queries_, of_keys_;  ///< for such rows; null: no mask
  BackwardKernels<bf16> of_bf16_;
  BackwardKernels<f16> of_f16_;
  KernelOf<In<f32, 3>, Out<f32, 1>> sinks_ = sink_gradients();
  KernelOf<GroupListsParams> groups_ = group_lists();
  CallPlans plans_{StrideKey::exact};
};

}  // namespace tegula::kernels
