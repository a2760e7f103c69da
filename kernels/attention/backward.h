#pragma once
// Attention's backward calls: checks, plan and kernels.
#include <memory>

#include "kernels/attention/heuristics.h"
#include "tegula/kernels/attention.h"

namespace tegula::kernels {

class AttentionBackward {
 public:
  /// Analyses the mask; `spec` is that of the forward call, with -inf split off its score.
  explicit AttentionBackward(const AttentionSpec& spec);
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
