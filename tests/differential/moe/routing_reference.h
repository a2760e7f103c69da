#pragma once
// Routing schemes of mixtures of experts in double precision, a row of logits at a time.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace tegula::test::experts {

using Doubles = std::vector<double>;

/// The experts of each token, the best one first: [tokens, k].
struct Routed {
  int k = 0;
  std::vector<int> ids;
  Doubles weights;

  std::size_t tokens() const { return ids.size() / static_cast<std::size_t>(k); }
};

/// The indices of the k largest values, the larger one first; of equal ones the smaller index; NaN
/// last.
inline std::vector<int> best_of(const Doubles& values, int k) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int i) { return values[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (std::isnan(at(b))) return !std::isnan(at(a));
    return at(a) > at(b);
  });
  order.resize(static_cast<std::size_t>(k));
  return order;
}

inline Doubles softmax(Doubles z) {
  double top = -INFINITY, sum = 0;
  for (double x : z) top = std::max(top, x);
  for (double& x : z) sum += x = std::exp(x - top);
  for (double& x : z) x /= sum;
  return z;
}
inline Doubles sigmoid(Doubles z) {
  for (double& x : z) x = 1 / (1 + std::exp(-x));
  return z;
}
inline Doubles sqrt_softplus(Doubles z) {
  for (double& x : z) x = std::sqrt(std::log1p(std::exp(x)));
  return z;
}
inline Doubles as_is(Doubles z) { return z; }
inline Doubles renormalised(Doubles w) {
  const double sum = std::accumulate(w.begin(), w.end(), 0.0);
  for (double& x : w) x /= sum;
  return w;
}

/// A routing scheme: scores of the logits, the values ranked, weights of the chosen scores.
struct Scheme {
  int k = 1;
  std::function<Doubles(Doubles)> score = softmax, to_weights = as_is;
  Doubles bias = {};  ///< added to the scores for the selection alone
  int groups = 1, kept_groups = 1, group_top = 2;
};

/// Ranked values: -inf in groups other than the kept ones (DeepSeek-V3).
inline Doubles ranked(const Scheme& s, Doubles scores) {
  for (std::size_t e = 0; e < s.bias.size(); ++e) scores[e] += s.bias[e];
  if (s.groups == 1) return scores;
  const std::size_t size = scores.size() / static_cast<std::size_t>(s.groups);
  Doubles best;
  for (int g = 0; g < s.groups; ++g) {
    const auto first = scores.begin() + static_cast<std::ptrdiff_t>(size) * g;
    const Doubles group(first, first + static_cast<std::ptrdiff_t>(size));
    double sum = 0;
    for (int i : best_of(group, s.group_top)) sum += group[static_cast<std::size_t>(i)];
    best.push_back(sum);
  }
  const std::vector<int> kept = best_of(best, s.kept_groups);
  for (std::size_t e = 0; e < scores.size(); ++e)
    if (std::find(kept.begin(), kept.end(), static_cast<int>(e / size)) == kept.end())
      scores[e] = -INFINITY;
  return scores;
}

/// The experts of the tokens whose logits are [tokens, experts].
inline Routed route(const Scheme& s, const Doubles& logits, int experts) {
  Routed routed{.k = s.k, .ids = {}, .weights = {}};
  const auto width = static_cast<std::ptrdiff_t>(experts);
  for (auto row = logits.begin(); row != logits.end(); row += width) {
    const Doubles scores = s.score(Doubles(row, row + width));
    Doubles chosen;
    for (int e : best_of(ranked(s, scores), s.k)) {
      routed.ids.push_back(e);
      chosen.push_back(scores[static_cast<std::size_t>(e)]);
    }
    for (double w : s.to_weights(chosen)) routed.weights.push_back(w);
  }
  return routed;
}

inline Scheme mixtral(int k = 2) { return {.k = k, .score = as_is, .to_weights = softmax}; }
inline Scheme qwen3(int k = 8) { return {.k = k, .to_weights = renormalised}; }
inline Scheme deepseek_moe(int k = 6) { return {.k = k}; }
inline Scheme switched() { return {.k = 1}; }
inline Scheme llama4() { return {.k = 1, .score = as_is, .to_weights = sigmoid}; }
inline Scheme gshard() {
  return {.k = 2, .to_weights = [](Doubles w) {
            const double sum = w[0] + w[1] + 1e-9;
            return Doubles{w[0] / sum, w[1] / sum};
          }};
}
inline Scheme deepseek_v3(Doubles bias, int k = 8, int groups = 8, int kept = 4,
                          double scale = 2.5) {
  const auto to_weights = [scale](Doubles w) {
    const double sum = std::accumulate(w.begin(), w.end(), 1e-20);
    for (double& x : w) x *= scale / sum;
    return w;
  };
  return {k, sigmoid, to_weights, std::move(bias), groups, kept, 2};
}

/// Each expert's best `capacity` tokens (Zhou 2022): tokens and gates [experts, capacity].
struct ChosenTokens {
  std::vector<int> tokens;
  Doubles gates;
};
inline ChosenTokens expert_choice(const Doubles& logits, int experts, int capacity) {
  const auto width = static_cast<std::size_t>(experts);
  const std::size_t tokens = logits.size() / width;
  std::vector<Doubles> columns(width, Doubles(tokens));
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(t * width);
    const Doubles p = softmax(Doubles(row, row + static_cast<std::ptrdiff_t>(width)));
    for (std::size_t e = 0; e < width; ++e) columns[e][t] = p[e];
  }
  ChosenTokens choice;
  for (const Doubles& column : columns)
    for (int t : best_of(column, capacity)) {
      choice.tokens.push_back(t);
      choice.gates.push_back(column[static_cast<std::size_t>(t)]);
    }
  return choice;
}

/// Squared coefficient of variation (Shazeer 2017): of importance and load.
inline double cv_squared(const Doubles& x) {
  const double n = static_cast<double>(x.size()),
               mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double m2 = 0;
  for (double v : x) m2 += (v - mean) * (v - mean);
  return m2 / n / (mean * mean + 1e-10);
}

/// Noisy top-k (Shazeer 2017): logits with noise H = z + n sigma; Load of expert i sums over tokens
/// Phi((z_i - kappa_i) / sigma_i), kappa_i the k-th largest of H without i.
struct NoisyLosses {
  Doubles importance, load;
};
inline NoisyLosses noisy_losses(const Doubles& z, const Doubles& sigma, const Doubles& h,
                                int experts, int k) {
  const auto width = static_cast<std::size_t>(experts);
  NoisyLosses sums{Doubles(width), Doubles(width)};
  const Routed routed = route(mixtral(k), h, experts);
  for (std::size_t i = 0; i < routed.ids.size(); ++i)
    sums.importance[static_cast<std::size_t>(routed.ids[i])] += routed.weights[i];
  for (std::size_t t = 0; t < z.size() / width; ++t) {
    const Doubles row(h.begin() + static_cast<std::ptrdiff_t>(t * width),
                      h.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
    for (std::size_t e = 0; e < width; ++e) {
      Doubles others = row;
      others[e] = -INFINITY;
      const double kappa = others[static_cast<std::size_t>(best_of(others, k).back())];
      const std::size_t i = t * width + e;
      sums.load[e] += 0.5 * std::erfc((kappa - z[i]) / sigma[i] / std::sqrt(2.0));
    }
  }
  return sums;
}

/// Sums that the balance losses are made of: how often each expert is chosen, the mean of its
/// probability, and the mean of logsumexp(z)^2.
struct BalanceSums {
  std::vector<std::int64_t> counts;
  Doubles mean_probability;
  double z_loss = 0;

  /// alpha E sum f P of Switch, f the share of the choices.
  double switch_loss(double alpha) const {
    double total = 0, loss = 0;
    for (auto n : counts) total += static_cast<double>(n);
    for (std::size_t e = 0; e < counts.size(); ++e)
      loss += static_cast<double>(counts[e]) / total * mean_probability[e];
    return alpha * static_cast<double>(counts.size()) * loss;
  }
};
inline BalanceSums balance_sums(const Doubles& logits, const Routed& routed, int experts) {
  const auto width = static_cast<std::size_t>(experts);
  BalanceSums sums{std::vector<std::int64_t>(width), Doubles(width)};
  for (int e : routed.ids) ++sums.counts[static_cast<std::size_t>(e)];
  const std::size_t tokens = logits.size() / width;
  for (std::size_t t = 0; t < tokens; ++t) {
    const Doubles z(logits.begin() + static_cast<std::ptrdiff_t>(t * width),
                    logits.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
    const Doubles p = softmax(z);
    for (std::size_t e = 0; e < width; ++e)
      sums.mean_probability[e] += p[e] / static_cast<double>(tokens);
    const double lse = z[0] - std::log(p[0]);
    sums.z_loss += lse * lse / static_cast<double>(tokens);
  }
  return sums;
}

/// DeepSeek-V3's bias after a step: higher if an expert had less than the mean, lower if more.
inline Doubles moved_bias(Doubles bias, const std::vector<std::int64_t>& counts, double gamma) {
  double mean = 0;
  for (auto n : counts) mean += static_cast<double>(n) / static_cast<double>(counts.size());
  for (std::size_t e = 0; e < bias.size(); ++e) {
    const double error = mean - static_cast<double>(counts[e]);
    bias[e] += gamma * ((error > 0) - (error < 0));
  }
  return bias;
}

}  // namespace tegula::test::experts
