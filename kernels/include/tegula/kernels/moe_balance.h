#pragma once
#include <source_location>

#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Load balancing of mixtures of experts: statistics and losses on the device, their gradients, and
/// the loss-free bias. All sums have a fixed order.
namespace tegula::kernels {

/// Statistics of the tokens of a call, for E experts. Allocated by `make_moe_balance`.
struct MoeBalance {
  Tensor counts;       ///< i32 [E]: choices of each expert, before any is dropped
  Tensor probability;  ///< f32 [E]: mean of softmax(logits)
  /// f32 [2]: E sum_e f_e P_e, where f_e is the expert's share of the choices and P_e its mean
  /// probability; it is 1 for a uniform distribution (Switch Transformer; GShard's is E times
  /// that). Then mean(logsumexp(logits)^2), the z-loss (ST-MoE; Zoph et al. 2022).
  Tensor losses;
};
/// Returns undefined contents for `moe_balance`.
MoeBalance make_moe_balance(int experts, Device device, Loc at = std::source_location::current());

/// Computes `out` from logits f32 [T, E] and choices ids i32 [T, k]. Without tokens all are 0.
/// Throws CompileError (T1662, T1670, T1676) for other tensors, as the functions below.
void moe_balance(const Stream& stream, const Tensor& logits, const Tensor& ids,
                 const MoeBalance& out, Loc at = std::source_location::current());
/// dlogits [T, E] += the gradient of balance_weight losses[0] + z_weight losses[1] with respect to
/// the logits; the shares of choices have no gradient.
void moe_balance_gradient(const Stream& stream, const Tensor& logits, const MoeBalance& balance,
                          float balance_weight, float z_weight, const Tensor& dlogits,
                          Loc at = std::source_location::current());
/// bias f32 [E] += gamma sign(mean of the counts - count): loss-free balancing of DeepSeek-V3.
void moe_update_bias(const Stream& stream, const Tensor& counts, const Tensor& bias, float gamma,
                     Loc at = std::source_location::current());

/// Sums of noisy top-k (Shazeer et al. 2017), f32 [E]: importance, the sums of the gates, and load,
/// the expected number of tokens under resampled noise.
struct NoisyTopKSums {
  Tensor importance, load;  ///< f32 [E]
  Tensor losses;            ///< f32 [2]: their squared coefficients of variation
};
/// Computes `out`; `noise_logits` and `noise` are f32 [T, E] as in routers::noisy_top_k; k < E.
void noisy_top_k_sums(const Stream& stream, const Tensor& logits, const Tensor& noise_logits,
                      const Tensor& noise, int k, const NoisyTopKSums& out,
                      Loc at = std::source_location::current());

}  // namespace tegula::kernels
