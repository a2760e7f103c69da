#pragma once
// Attention's backward calls: checks, plan and kernels.
#include <memory>

#include "kernels/attention/heuristics.h"
#include "tegula/kernels/attention.h"

namespace tegula::kernels {

class AttentionBackward {
 public:
  /// Analyses the mask. Throws CompileError (T1662) for a specification without gradients.
  explicit AttentionBackward(std::shared_ptr<const AttentionHeuristics> facts);
  ~AttentionBackward();

  void call(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
            const AttentionSaved& saved, const AttentionGradients& of,
            const AttentionInputGradients& into) const;
  /// Returns a report on the last compiled main kernel, or an empty string if there is none.
  std::string explain(DType dtype) const;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace tegula::kernels
