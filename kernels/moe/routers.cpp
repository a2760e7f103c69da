#include "tegula/kernels/moe_routers.h"

namespace tegula {
namespace {

/// The ranks with -inf in groups that are not kept; 0 would be better than a negative rank.
Tile in_kept_groups(const RouterParts& p, const Tile& ranks) {
  const std::int64_t tokens = ranks.dim(0), experts = ranks.dim(1);
  const Tile grouped = ranks.reshape({tokens, p.groups, experts / p.groups});
  const Tile best = sum(topk(grouped, p.group_top, 2).values, 2),
             kept = topk(best, p.kept_groups, 1).indices,
             is_kept = any(kept(all, all, none) == arange(p.groups)(none, none, all), 1);
  return where(is_kept(all, all, none), grouped, -inf).reshape({tokens, experts});
}

Routing choose(const RouterParts& p, const Tile& logits, const Index& tokens) {
  const Tile scores = p.score(logits, tokens);
  Tile ranks = p.rank ? p.rank(scores, tokens) : scores;
  if (p.groups > 1) ranks = in_kept_groups(p, ranks);
  const Tile ids = topk(ranks, p.k, 1).indices, chosen = gather(scores, ids, 1);
  return {p.to_weights ? p.to_weights(chosen) : chosen, ids};
}

Tile logit(const Tile& z, const Index&) { return z; }
Tile probability(const Tile& z, const Index&) { return routers::softmax_rows(z); }
Tile over_their_sum(const Tile& w) { return w / sum(w, 1, keepdims); }

}  // namespace

Router router(RouterParts parts) {
  return {parts.k, [parts](const Tile& z, const Index& t) { return choose(parts, z, t); }};
}

namespace routers {

Tile softmax_rows(const Tile& z) {
  const Tile e = exp(z - max(z, 1, keepdims));
  return e / sum(e, 1, keepdims);
}

Router mixtral(int k) { return router({.k = k, .score = logit, .to_weights = softmax_rows}); }
Router qwen3(int k) { return router({.k = k, .score = probability, .to_weights = over_their_sum}); }
Router deepseek_moe(int k) { return router({.k = k, .score = probability}); }
Router switch_transformer() { return deepseek_moe(1); }
Router llama4() {
  return router({.k = 1, .score = logit, .to_weights = [](const Tile& w) { return sigmoid(w); }});
}
Router gshard() {
  return router({.k = 2, .score = probability, .to_weights = [](const Tile& w) {
                   return w / (sum(w, 1, keepdims) + 1e-9f);
                 }});
}
Router gshard_random(Tensor draws, float threshold) {
  return {2, [draws, threshold, best = gshard()](const Tile& z, const Index& t) {
            const Routing r = best.choose(z, t);
            const Tile draw = view<f32, 1>(draws)(t)(all, none),
                       is_kept = arange(2)(none, all) == 0 || draw * threshold < r.weights;
            return Routing{r.weights, where(is_kept, r.ids, -1)};
          }};
}
Router deepseek_v3(Tensor bias, DeepSeekV3 o) {
  return router(
      {.k = o.k,
       .score = [](const Tile& z, const Index&) { return sigmoid(z); },
       .rank = [bias](
                   const Tile& s,
                   const Index&) { return s + view<f32, 1>(bias)(slice(0, s.dim(1)))(none, all); },
       .to_weights = [scale = o.scale](
                         const Tile& w) { return w * (scale / (sum(w, 1, keepdims) + 1e-20f)); },
       .groups = o.groups,
       .kept_groups = o.kept_groups});
}
Router noisy_top_k(int k, Tensor noise_logits, Tensor noise) {
  const auto noisy = [noise_logits, noise](const Tile& z, const Index& t) {
    const Index experts = slice(0, z.dim(1));
    const Tile sigma = softplus(view<f32, 2>(noise_logits)(t, experts));
    return fma(view<f32, 2>(noise)(t, experts), sigma, z);
  };
  return router({.k = k, .score = noisy, .to_weights = softmax_rows});
}
Router sqrt_softplus(int k) {
  return router({.k = k,
                 .score = [](const Tile& z, const Index&) { return sqrt(softplus(z)); },
                 .to_weights = over_their_sum});
}

}  // namespace routers
}  // namespace tegula
