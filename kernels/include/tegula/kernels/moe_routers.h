#pragma once
#include <source_location>

#include "tegula/lambda.h"
#include "tegula/tegula.h"

/// Routers of mixtures of experts: they choose the experts of each token, and their weights.
namespace tegula::kernels {

/// Chosen experts of some tokens, best first, and their weights: i32 and f32 [tokens, k]. An id
/// outside the valid range chooses no expert.
struct Routing {
  Tile weights, ids;  ///< f32 and i32 [tokens, k]
};

/// `choose(logits, tokens)` receives the f32 logits [tokens, experts] of a few tokens and their
/// indices, and is traced into the routing kernel: any DSL code is allowed. It returns k choices
/// per token.
struct Router {
  int k = 1;                                                             ///< choices per token
  Lambda<Routing(const Tile& logits, const Index& tokens)> choose = {};  ///< required
  /// For the backward pass: returns the gradient of the logits [tokens, experts] from the gradient
  /// of the weights [tokens, k] of these choices.
  Lambda<Tile(const Tile& logits, const Index& tokens, const Tile& ids, const Tile& dweights)>
      gradient = {};
};

/// Components of a generated router; all functions operate on f32 tiles [tokens, experts]. Choices
/// are the k largest of `rank(score(logits))` among the kept groups; ties are resolved by the
/// smaller expert index, and NaN comes last.
struct RouterParts {
  int k = 1;  ///< choices per token
  /// Returns the scores of all experts, such as their softmax.
  Lambda<Tile(const Tile& logits, const Index& tokens)> score;
  /// Values by which experts are chosen; default: the scores.
  Lambda<Tile(const Tile& scores, const Index& tokens)> rank = {};
  /// Returns the weights from the chosen scores [tokens, k]; default: the scores themselves.
  Lambda<Tile(const Tile& chosen)> to_weights = {};
  /// For the backward pass: the gradient of the logits from that of the scores, and the gradient of
  /// the chosen scores from that of the weights. The latter is not needed without `to_weights`.
  Lambda<Tile(const Tile& logits, const Index& tokens, const Tile& dscores)> score_gradient = {};
  /// See `score_gradient`.
  Lambda<Tile(const Tile& chosen, const Tile& dweights)> weights_gradient = {};
  /// Experts are divided into `groups` of consecutive ones; the `kept_groups` groups with the
  /// largest sums of their `group_top` best ranks are kept (DeepSeek-V3).
  int groups = 1, kept_groups = 1, group_top = 2;
};
/// Returns the router that these components define.
Router router(RouterParts parts);

namespace routers {

/// Softmax of each row, for tiles [rows, any], and its gradient.
Tile softmax_rows(const Tile& z);
Tile softmax_rows_gradient(const Tile& z, const Tile& dp);

/// Top k of the logits, softmax over them (Mixtral; gpt-oss with k = 4).
Router mixtral(int k = 2);
/// Softmax, top k, weights normalized to sum 1.
Router qwen3(int k = 8);
/// Softmax, top k, weights not normalized (DeepSeekMoE; Dai et al. 2024).
Router deepseek_moe(int k = 6);
/// Softmax, top 1 (Switch Transformer; Fedus et al. 2022): the weight of `qwen3` would be 1.
Router switch_transformer();
/// Top 1 of the logits, weight sigmoid(logit): for MoeOptions::scales_inputs.
Router llama4();
/// Top 2, weights divided by their sum + 1e-9 (GShard; Lepikhin et al. 2021).
Router gshard();
/// The same, keeping the second choice with probability min(1, weight / threshold): `draws` f32
/// [tokens] in [0, 1), which the caller fills again for every step.
Router gshard_random(Tensor draws, float threshold = 0.2f);
/// Numbers of DeepSeek-V3.
struct DeepSeekV3 {
  int k = 8, groups = 8, kept_groups = 4;  ///< as in RouterParts
  float scale = 2.5f;                      ///< sum of the weights of a token
};
/// Sigmoid scores, selection by score + `bias` (f32 [experts], read in every call) in the best
/// groups, weights scale * score / sum (DeepSeek-V3; Kimi-K2 with one group).
Router deepseek_v3(Tensor bias, DeepSeekV3 options = {});
/// Top k of logits + noise * softplus(noise_logits), softmax over them (Shazeer et al. 2017):
/// `noise` (normal) and `noise_logits` are f32 [tokens, experts], filled again for every step.
Router noisy_top_k(int k, Tensor noise_logits, Tensor noise);
/// Computes the gradient of the noise logits: that of the logits times noise *
/// sigmoid(noise_logits), all f32 [tokens, experts]. Throws CompileError for other tensors.
void noisy_top_k_gradient(const Stream& stream, const Tensor& dlogits, const Tensor& noise_logits,
                          const Tensor& noise, const Tensor& dnoise_logits,
                          Loc at = std::source_location::current());
/// out = X * (1 + epsilon * (2 u - 1)), u uniform in [0, 1): input jitter of the Switch Transformer
/// router for training. X is bf16 or f16 [tokens, h]; `out` has X's type and shape, or is X itself.
/// `seed` i64 [1] is read in every call, so a graph uses its current contents: element i takes
/// rand(seed, i). Throws CompileError for other tensors.
void jitter(const Stream& stream, const Tensor& X, float epsilon, const Tensor& seed,
            const Tensor& out, Loc at = std::source_location::current());
/// Scores sqrt(softplus(z)), weights divided by their sum.
Router sqrt_softplus(int k);

}  // namespace routers
}  // namespace tegula::kernels
