#pragma once
// Attention's backward calls: checks, plan and kernels.
#include <memory>

#include "kernels/attention/backward_kernel.h"
#include "kernels/attention/heuristics.h"
#include "tegula/kernels/attention.h"

namespace tegula::kernels {

/// Returns the blocks of the lists that `AttentionSaved::blocks` has by default.
inline AttentionTileShape backward_list_tiles() {
  const BackwardTiles tiles;
  return {tiles.block_q, tiles.block_kv};
}

class AttentionBackward {
 public:
  /// Analyses the mask. Throws CompileError (T1662) for a specification without gradients.
  explicit AttentionBackward(std::shared_ptr<const AttentionHeuristics> facts);
  ~AttentionBackward();

  /// `lengths`: those of packed sequences, or null.
  void call(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
            const AttentionSaved& saved, const AttentionGradients& of,
            const AttentionInputGradients& into, const CuSeqlens* lengths) const;
  /// Returns a report on the last compiled main kernel, or an empty string if there is none.
  std::string explain(DType dtype) const;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace tegula::kernels
