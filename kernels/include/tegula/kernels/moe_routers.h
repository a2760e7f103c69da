#pragma once
#include <functional>
#include <source_location>

#include "tegula/tegula.h"

/// Routers of mixtures of experts: which experts a token goes to, and with which weights.
namespace tegula {

/// Chosen experts of some tokens, the best one first, and their weights: i32 and f32 [tokens, k].
/// An id outside of the experts chooses none.
struct Routing {
  Tile weights, ids;
};

/// `choose(logits, tokens)` gets the f32 logits [tokens, experts] of a few tokens and their
/// indices, and runs inside the routing kernel: any code of the language. It gives k choices a
/// token.
struct Router {
  int k = 1;
  std::function<Routing(const Tile& logits, const Index& tokens)> choose = {};
  /// For backward: the gradient of the logits [tokens, experts] from that of the weights [tokens,
  /// k] of these choices.
  std::function<Tile(const Tile& logits, const Index& tokens, const Tile& ids,
                     const Tile& dweights)>
      gradient = {};
};

/// Parts of the generator of routers; all functions are on tiles [tokens, experts] of f32.
/// Choices are the k largest of `rank(score(logits))` among the kept groups; of equal ones those
/// with the smaller numbers; NaN comes last.
struct RouterParts {
  int k = 1;
  std::function<Tile(const Tile& logits, const Index& tokens)> score;
  /// The values by which experts are chosen; without it the scores.
  std::function<Tile(const Tile& scores, const Index& tokens)> rank = {};
  /// Weights of the chosen scores [tokens, k]; without it these themselves.
  std::function<Tile(const Tile& chosen)> to_weights = {};
  /// For backward: gradients of the logits from those of the scores, of the chosen scores from
  /// those of the weights. Without `to_weights` the latter is not asked for.
  std::function<Tile(const Tile& logits, const Index& tokens, const Tile& dscores)> score_gradient =
      {};
  std::function<Tile(const Tile& chosen, const Tile& dweights)> weights_gradient = {};
  /// Experts are `groups` runs of equal length, of which the `kept_groups` with the largest sums of
  /// their `group_top` best ranks stay (DeepSeek-V3).
  int groups = 1, kept_groups = 1, group_top = 2;
};
Router router(RouterParts parts);

namespace routers {

/// Softmax of each row, of [rows, any], and its gradient.
Tile softmax_rows(const Tile& z);
Tile softmax_rows_gradient(const Tile& z, const Tile& dp);

/// Top k of the logits, softmax over these (Mixtral; gpt-oss with k = 4).
Router mixtral(int k = 2);
/// Softmax, top k, weights divided by their sum.
Router qwen3(int k = 8);
/// Softmax, top k, weights as they are (DeepSeekMoE; Dai et al. 2024).
Router deepseek_moe(int k = 6);
/// Softmax, the best one (Switch Transformer; Fedus et al. 2022): `qwen3`'s weight would be 1.
Router switch_transformer();
/// The best one by its logit, weight sigmoid(logit): for MoeOptions::scales_inputs.
Router llama4();
/// The best two, weights divided by their sum + 1e-9 (GShard; Lepikhin et al. 2021).
Router gshard();
/// The same, the second one kept with probability min(1, weight / threshold): `draws` f32 [tokens]
/// of [0, 1), which the caller fills anew for every step.
Router gshard_random(Tensor draws, float threshold = 0.2f);
struct DeepSeekV3 {
  int k = 8, groups = 8, kept_groups = 4;
  float scale = 2.5f;
};
/// Sigmoid scores, selection by score + `bias` (f32 [experts], read at every call) in the best
/// groups, weights scale * score / sum (DeepSeek-V3; Kimi-K2 with one group).
Router deepseek_v3(Tensor bias, DeepSeekV3 options = {});
/// Top k of logits + noise * softplus(noise_logits), softmax over these (Shazeer et al. 2017):
/// `noise` normal and `noise_logits`, f32 [tokens, experts], both filled anew for every step.
Router noisy_top_k(int k, Tensor noise_logits, Tensor noise);
/// Its gradient of the noise logits: that of the logits times noise * sigmoid(noise_logits), all
/// f32 [tokens, experts]. CompileError for other tensors.
void noisy_top_k_gradient(const Stream& stream, const Tensor& dlogits, const Tensor& noise_logits,
                          const Tensor& noise, const Tensor& dnoise_logits,
                          Loc at = std::source_location::current());
/// out = X * (1 + epsilon * (2 u - 1)), u uniform in [0, 1): Switch Transformer's jitter of what
/// the router multiplies, X bf16 or f16 [tokens, h], in training. `out` is of X's type and shape,
/// or X itself. `seed` i64 [1] is read at every call, so that a graph draws anew when it has
/// changed: element i takes rand(seed, i). CompileError for other tensors.
void jitter(const Stream& stream, const Tensor& X, float epsilon, const Tensor& seed,
            const Tensor& out, Loc at = std::source_location::current());
/// Scores sqrt(softplus(z)), weights divided by their sum.
Router sqrt_softplus(int k);

}  // namespace routers
}  // namespace tegula
