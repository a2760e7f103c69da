#pragma once
// The tensors of a call of a layer: what they must be, and the numbers that follow.
#include <cstdint>

#include "tegula/kernels/moe.h"

namespace tegula::experts {

/// Tensors of a call; those that are left out are not `defined()`.
struct LayerCall {
  Tensor X, logits, Y;  ///< logits: none where the weights' router makes them
  MoeWeights weights;
  MoeSaved saved;  ///< for training

  std::int64_t tokens() const { return X.size(0); }
  std::int64_t hidden() const { return X.size(1); }
};

/// The most keys that choices are counted by.
inline constexpr int kMaxKeys = 4096;

/// Throws CompileError for options that name no layer.
void check_options(const MoeOptions& options);
/// Throws CompileError unless the tensors are those of such a layer.
void check_call(const MoeOptions& options, const LayerCall& call);
void check_routing(const MoeOptions& options, const Tensor& logits, const Tensor& bias,
                   const MoeRouting& routing);
/// `call.Y` is the gradient of Y.
void check_backward(const MoeOptions& options, const LayerCall& call,
                    const MoeGradients& gradients);

/// The options with a router for what they leave to the layer.
MoeOptions completed(MoeOptions options);
/// Choices of a token, shared experts among them.
inline int choices_per_token(const MoeOptions& o) { return o.router.k + o.shared_experts; }
inline int all_experts(const MoeOptions& o) { return o.experts + o.shared_experts; }
/// Whether experts can take the tokens' rows as they are.
inline bool gathers_rows(const MoeOptions& o) { return !o.scales_inputs && !o.quantisation; }
/// Rows of all experts.
std::int64_t rows_of_experts(const MoeOptions& options, std::int64_t tokens);
/// The most rows of an expert; -1 for any number.
int capacity_of(const MoeOptions& options, std::int64_t tokens);

}  // namespace tegula::experts
