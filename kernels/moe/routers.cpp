#include "tegula/kernels/moe_routers.h"

#include <fmt/format.h>

#include "kernels/argument_error.h"

namespace tegula::kernels {
namespace {

void require_within(const char* name, int value, std::int64_t most, const char* of) {
  if (value < 1 || value > most)
    throw_argument_error(ErrorId::kernel_argument, "router", name, value,
                         fmt::format("1 to {}, the number of {}", most, of));
}

/// Throws T1662 for parameters that do not match the number of experts, which is first known here.
void check_parts(const RouterParts& p, std::int64_t experts) {
  require_within("k", p.k, experts, "experts");
  if (p.groups <= 1) return;
  if (experts % p.groups != 0)
    throw_argument_error(ErrorId::kernel_argument, "router", "groups", p.groups,
                         fmt::format("a divisor of {}, the number of experts", experts));
  require_within("kept_groups", p.kept_groups, p.groups, "groups");
  require_within("group_top", p.group_top, experts / p.groups, "experts of a group");
}

/// Sets ranks to -inf in groups that are not kept; 0 would exceed negative ranks.
Tile in_kept_groups(const RouterParts& p, const Tile& ranks) {
  const std::int64_t tokens = ranks.shape()[0], experts = ranks.shape()[1];
  const Tile grouped = ranks.reshape({tokens, p.groups, experts / p.groups});
  const Tile best = sum(topk(grouped, p.group_top, 2).values, 2),
             kept = topk(best, p.kept_groups, 1).indices,
             is_kept = any(kept(all, all, none) == arange(p.groups)(none, none, all), 1);
  return where(is_kept(all, all, none), grouped, -inf).reshape({tokens, experts});
}

Routing choose(const RouterParts& p, const Tile& logits, const Index& tokens) {
  check_parts(p, logits.shape()[1]);
  const Tile scores = p.score(logits, tokens);
  Tile ranks = p.rank ? p.rank(scores, tokens) : scores;
  if (p.groups > 1) ranks = in_kept_groups(p, ranks);
  const Sorted best = topk(ranks, p.k, 1);
  const bool are_scores = !p.rank && p.groups <= 1;
  const Tile chosen = are_scores ? best.values : gather(scores, best.indices, 1);
  return {p.to_weights ? p.to_weights(chosen) : chosen, best.indices};
}

Tile gradient(const RouterParts& p, const Tile& logits, const Index& tokens, const Tile& ids,
              const Tile& dweights) {
  const Tile scores = p.score(logits, tokens), chosen = gather(scores, max(0, ids), 1);
  const Tile dchosen = p.to_weights ? p.weights_gradient(chosen, dweights) : dweights;
  const Tile dscores = scatter(zeros<f32>(scores.dim(0), scores.dim(1)), ids, dchosen, 1);
  return p.score_gradient(logits, tokens, dscores);
}

/// Uses the logits as scores.
RouterParts by_logits(int k) {
  return {.k = k,
          .score = [](const Tile& z, const Index&) { return z; },
          .score_gradient = [](const Tile&, const Index&, const Tile& ds) { return ds; }};
}
RouterParts by_probabilities(int k) {
  return {.k = k,
          .score = [](const Tile& z, const Index&) { return routers::softmax_rows(z); },
          .score_gradient = [](const Tile& z, const Index&,
                               const Tile& ds) { return routers::softmax_rows_gradient(z, ds); }};
}
RouterParts with_softmax(RouterParts p) {
  p.to_weights = routers::softmax_rows, p.weights_gradient = routers::softmax_rows_gradient;
  return p;
}
/// Sets the weights to scale * score / (sum of the chosen scores + epsilon).
RouterParts over_their_sum(RouterParts p, float scale = 1, float epsilon = 0) {
  p.to_weights = [=](const Tile& w) { return w * (scale / (sum(w, 1, keepdims) + epsilon)); };
  p.weights_gradient = [=](const Tile& w, const Tile& dw) {
    const Tile inverse = rcp(sum(w, 1, keepdims) + epsilon);
    return (dw - sum(w * dw, 1, keepdims) * inverse) * inverse * scale;
  };
  return p;
}

}  // namespace

Router router(RouterParts parts) {
  Router r{.k = parts.k,
           .choose = [parts](const Tile& z, const Index& t) { return choose(parts, z, t); }};
  if (parts.score_gradient && (!parts.to_weights || parts.weights_gradient))
    r.gradient = [parts](const Tile& z, const Index& t, const Tile& ids, const Tile& dw) {
      return gradient(parts, z, t, ids, dw);
    };
  return r;
}

namespace routers {

Tile softmax_rows(const Tile& z) {
  const Tile e = exp(z - max(z, 1, keepdims));
  return e * (1.0f / sum(e, 1, keepdims));  // one division per row
}

Tile softmax_rows_gradient(const Tile& z, const Tile& dp) {
  const Tile p = softmax_rows(z);
  return p * (dp - sum(p * dp, 1, keepdims));
}

Router mixtral(int k) { return router(with_softmax(by_logits(k))); }
/// Normalized probabilities of the chosen experts are the softmax of their logits.
Router qwen3(int k) { return mixtral(k); }
Router deepseek_moe(int k) { return router(by_probabilities(k)); }
Router switch_transformer() { return deepseek_moe(1); }
Router llama4() {
  RouterParts p = by_logits(1);
  p.to_weights = [](const Tile& z) { return sigmoid(z); };
  p.weights_gradient = [](const Tile& z, const Tile& dw) {
    const Tile s = sigmoid(z);
    return dw * s * (1.0f - s);
  };
  return router(std::move(p));
}
Router gshard() { return router(over_their_sum(by_probabilities(2), 1, 1e-9f)); }
Router gshard_random(Tensor draws, float threshold) {
  const Router best = gshard();
  const auto choose = [draws, threshold, best](const Tile& z, const Index& t) {
    const Routing r = best.choose(z, t);
    const Tile draw = view<f32, 1>(draws)(t)(all, none),
               is_kept = arange(2)(none, all) == 0 || draw * threshold < r.weights;
    return Routing{r.weights, where(is_kept, r.ids, -1)};
  };
  // The random decision has no gradient. The weight of a dropped choice contributes to the sum, but
  // its id is -1 by now, so the best two are computed again.
  const auto gradient = [best](const Tile& z, const Index& t, const Tile&, const Tile& dw) {
    return best.gradient(z, t, best.choose(z, t).ids, dw);
  };
  return {2, choose, gradient};
}
Router deepseek_v3(Tensor bias, DeepSeekV3 o) {
  RouterParts p{.k = o.k, .score = [](const Tile& z, const Index&) { return sigmoid(z); }};
  p.rank = [bias](const Tile& s, const Index&) {
    require_tensor("routers::deepseek_v3", "bias", bias, DType::f32, {s.shape()[1]});
    return s + view<f32, 1>(bias)(slice(0, s.shape()[1]))(none, all);
  };
  p.score_gradient = [](const Tile& z, const Index&, const Tile& ds) {
    const Tile s = sigmoid(z);
    return ds * s * (1.0f - s);
  };
  p.groups = o.groups, p.kept_groups = o.kept_groups;
  return router(over_their_sum(std::move(p), o.scale, 1e-20f));
}
Router noisy_top_k(int k, Tensor noise_logits, Tensor noise) {
  RouterParts p = by_logits(k);
  p.score = [noise_logits, noise](const Tile& z, const Index& t) {
    const Index experts = slice(0, z.dim(1));
    const Tile sigma = softplus(view<f32, 2>(noise_logits)(t, experts));
    return fma(view<f32, 2>(noise)(t, experts), sigma, z);
  };
  return router(with_softmax(std::move(p)));
}
Router sqrt_softplus(int k) {
  RouterParts p{.k = k, .score = [](const Tile& z, const Index&) { return sqrt(softplus(z)); }};
  p.score_gradient = [](const Tile& z, const Index&, const Tile& ds) {
    // Logits so low that softplus is 0 have a slope of 0, not of 0 * inf.
    return ds * sigmoid(z) * 0.5f * rsqrt(max(softplus(z), 0x1p-126f));
  };
  return router(over_their_sum(std::move(p)));
}

}  // namespace routers
}  // namespace tegula::kernels
