#pragma once
#include <source_location>

#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Balance of a mixture of experts: sums and losses on the device, their gradients, and the bias
/// that needs no loss. All sums have a fixed order.
namespace tegula {

/// Sums over the tokens of a call, E experts. Made by `make_moe_balance`.
struct MoeBalance {
  Tensor counts;       ///< i32 [E]: choices of each expert, before any is dropped
  Tensor probability;  ///< f32 [E]: mean of softmax(logits)
  /// f32 [2]: E sum_e f_e P_e, where f is an expert's share of the choices and P its mean
  /// probability, which is 1 where all is even (Switch Transformer; GShard's is the same times E);
  /// and mean(logsumexp(logits)^2), the z-loss (ST-MoE; Zoph et al. 2022).
  Tensor losses;
};
MoeBalance make_moe_balance(int experts, Device device, Loc at = std::source_location::current());

/// From logits f32 [T, E] and choices ids i32 [T, k]. Without tokens all are 0.
void moe_balance(const Stream& stream, const Tensor& logits, const Tensor& ids,
                 const MoeBalance& out, Loc at = std::source_location::current());
/// dlogits [T, E] += balance_weight d losses[0] + z_weight d losses[1], by the logits; the shares
/// of choices have no gradient.
void moe_balance_gradient(const Stream& stream, const Tensor& logits, const MoeBalance& balance,
                          float balance_weight, float z_weight, const Tensor& dlogits,
                          Loc at = std::source_location::current());
/// bias f32 [E] += gamma sign(mean of the counts - count): DeepSeek-V3's balance without a loss.
void moe_update_bias(const Stream& stream, const Tensor& counts, const Tensor& bias, float gamma,
                     Loc at = std::source_location::current());

/// Sums of noisy top-k (Shazeer et al. 2017), f32 [E]: importance, of the gates, and load, the
/// expected number of tokens if the noise were drawn again.
struct NoisyTopKSums {
  Tensor importance, load;
  Tensor losses;  ///< f32 [2]: squared coefficients of variation of both
};
/// `noise_logits` and `noise` f32 [T, E] as in routers::noisy_top_k; k < E.
void noisy_top_k_sums(const Stream& stream, const Tensor& logits, const Tensor& noise_logits,
                      const Tensor& noise, int k, const NoisyTopKSums& out,
                      Loc at = std::source_location::current());

}  // namespace tegula
