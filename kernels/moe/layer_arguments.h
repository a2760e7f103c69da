#pragma once
// Checks of the tensors of a layer's calls, and sizes that are derived from them.
#include <cstdint>

#include "tegula/kernels/moe.h"

namespace tegula::kernels::experts {

/// Tensors of a call; optional ones may not be `defined()`.
struct LayerCall {
  Tensor X, logits, Y;  ///< logits: undefined if they are computed from weights.router
  MoeWeights weights;
  MoeSaved saved;  ///< for training

  std::int64_t tokens() const { return X.size(0); }
  std::int64_t hidden() const { return X.size(1); }
};

/// Largest number of keys for counting choices.
inline constexpr int kMaxKeys = 4096;

/// Throws CompileError for invalid options.
void check_options(const MoeOptions& options);
/// Throws CompileError unless the tensors match the layer.
void check_call(const MoeOptions& options, const LayerCall& call);
void check_routing(const MoeOptions& options, const Tensor& logits, const Tensor& bias,
                   const MoeRouting& routing);
/// Checks a backward call; `call.Y` is the gradient of Y.
void check_backward(const MoeOptions& options, const LayerCall& call,
                    const MoeGradients& gradients);

/// Returns the options with defaults for expert choice, which replaces router and capacity.
MoeOptions completed(MoeOptions options);
/// Returns the choices per token, including shared experts.
inline int choices_per_token(const MoeOptions& o) { return o.router.k + o.shared_experts; }
inline int all_experts(const MoeOptions& o) { return o.experts + o.shared_experts; }
/// Returns true if the up GEMM may gather the tokens' rows directly.
inline bool gathers_rows(const MoeOptions& o) { return !o.scales_inputs && !o.quantisation; }
/// Returns the number of rows of all experts.
std::int64_t rows_of_experts(const MoeOptions& options, std::int64_t tokens);
/// Returns the maximum number of rows per expert; -1 if it is unlimited.
int capacity_of(const MoeOptions& options, std::int64_t tokens);

}  // namespace tegula::kernels::experts
