// Load balancing of experts: each program sums some tokens; the last one adds the sums in order.
#include "tegula/kernels/moe_balance.h"

#include <algorithm>
#include <numbers>

#include "kernels/argument_error.h"
#include "kernels/moe/expert_tiles.h"
#include "kernels/moe/moe_tensor.h"
#include "tegula/call_plan.h"

namespace tegula::kernels {
namespace {

using experts::whole;

constexpr int kTokens = 32;

/// Returns the total of the partial sums [tiles, columns] of all programs, added in order.
template <class T>
Tile total(const InOut<T, 2>& partials, int columns) {
  Tile sum = zeros<T>(columns);
  for (auto i : steps(partials.rows(), 16)) sum = sum + tegula::sum(partials(i, whole(columns)), 0);
  return sum;
}
Tile at_least_1(const Tile& count) { return max(1.0f, cast<f32>(count)); }

struct BalanceKernel {
  void operator()(In<f32, 2> logits, In<i32, 2> ids, Ptr<u32> arrivals, InOut<f32, 2> probabilities,
                  InOut<i32, 2> choices, InOut<f32, 2> squares, Out<i32, 1> counts,
                  Out<f32, 1> probability, Out<f32, 1> losses) const {
    const int experts = logits.static_dim(1), k = ids.static_dim(1);
    const Tile tiles = cast<i32>(choices.rows());
    for (auto i : grid(rows(choices), 1)) {
      grid_dependency_wait();
      const Index t = slice(i.first() * kTokens, kTokens);
      const Tile z = logits(t, whole(experts)), lse = logsumexp(z, 1);
      probabilities(i, whole(experts)) = sum(routers::softmax_rows(z), 0);
      choices(i, whole(experts)) = histogram(ravel(ids(t, whole(k))), experts);
      squares(i, 0) = sum(lse * lse);
      if_(arrive_and_test_last(arrivals, tiles), [&] {
        const Tile n = total(choices, experts), tokens = at_least_1(logits.rows()),
                   p = total(probabilities, experts) / tokens;
        counts(whole(experts)) = n, probability(whole(experts)) = p;
        losses(0) = sum(cast<f32>(n) * p) * (experts / at_least_1(sum(n)));
        losses(1) = sum(total(squares, 1)) / tokens;
      });
    }
  }
};

struct BalanceGradient {
  void operator()(In<f32, 2> logits, In<i32, 1> counts, InOut<f32, 2> dlogits,
                  Scalar<f32> balance_weight, Scalar<f32> z_weight) const {
    const int experts = logits.static_dim(1);
    for (auto t : grid(rows(logits), 16)) {
      grid_dependency_wait();
      const Tile z = logits(t, whole(experts)), n = counts(whole(experts)),
                 tokens = at_least_1(logits.rows()), p = routers::softmax_rows(z);
      const Tile share = cast<f32>(n) / at_least_1(sum(n)),
                 dp = share * (balance_weight.value() * experts / tokens);
      const Tile of_z = logsumexp(z, 1)(all, none) * (z_weight.value() * 2.0f / tokens);
      const Tile by_balance = p * (dp(none, all) - sum(p * dp(none, all), 1, keepdims));
      dlogits(t, whole(experts)) += by_balance + of_z * p;
    }
  }
};

struct UpdateBias {
  void operator()(In<i32, 1> counts, InOut<f32, 1> bias, Scalar<f32> gamma) const {
    const int experts = counts.static_dim(0);
    for ([[maybe_unused]] auto i : grid(GridSpace(Tile(1)), 1)) {
      grid_dependency_wait();
      // n < sum / E, evaluated exactly: compares n E with the sum in 64 bits.
      const Tile n = cast<i64>(counts(whole(experts))), all_of_them = sum(n),
                 times = n * cast<i64>(Tile(experts));
      const Tile sign = cast<f32>(times < all_of_them) - cast<f32>(times > all_of_them);
      bias(whole(experts)) += sign * gamma.value();
    }
  }
};

/// Returns the squared coefficient of variation.
Tile cv_squared(const Tile& x) {
  const Tile m = mean(x, 0);
  return var(x, 0) / (m * m + 1e-10f);
}

struct NoisySums {
  void operator()(In<f32, 2> logits, In<f32, 2> noise_logits, In<f32, 2> noise, Ptr<u32> arrivals,
                  InOut<f32, 2> gates, InOut<f32, 2> loads, Out<f32, 1> importance,
                  Out<f32, 1> load, Out<f32, 1> losses, int k) const {
    const int experts = logits.static_dim(1);
    const Subscript e = whole(experts);
    const Tile tiles = cast<i32>(gates.rows());
    for (auto i : grid(rows(gates), 1)) {
      grid_dependency_wait();
      const Index t = slice(i.first() * kTokens, kTokens);
      const Tile z = logits(t, e), sigma = softplus(noise_logits(t, e)),
                 h = fma(noise(t, e), sigma, z);
      const Sorted best = topk(h, k + 1, 1);
      const Tile of_k = best.values(all, part(0, k)), last = best.values(all, part(k - 1, 1)),
                 next = best.values(all, part(k, 1));
      gates(i, e) = sum(scatter(zeros<f32>(kTokens, experts), best.indices(all, part(0, k)),
                                routers::softmax_rows(of_k), 1),
                        0);
      // k-th largest of the other experts: the (k+1)-th overall for chosen experts.
      const Tile kappa = where(h >= last, next, last);
      const Tile x = (z - kappa) / sigma * (std::numbers::sqrt2_v<float> / 2);
      loads(i, e) = sum(0.5f + 0.5f * erf(x), 0);
      if_(arrive_and_test_last(arrivals, tiles), [&] {
        const Tile g = total(gates, experts), l = total(loads, experts);
        importance(e) = g, load(e) = l;
        losses(0) = cv_squared(g), losses(1) = cv_squared(l);
      });
    }
  }
};

std::int64_t tiles_of_tokens(const Tensor& logits) {
  return std::max<std::int64_t>(1, (logits.size(0) + kTokens - 1) / kTokens);
}

/// Throws unless the logits are f32 [T, E].
void check_logits(const Tensor& logits) {
  if (logits.rank() == 2 && logits.dtype() == DType::f32) return;
  throw_argument_error(ErrorId::moe_logits, logits.str());
}

}  // namespace

MoeBalance make_moe_balance(int experts, Device device, Loc at) {
  const detail::CallPlace here(at);
  return {Tensor::empty({experts}, DType::i32, device),
          Tensor::empty({experts}, DType::f32, device), Tensor::empty({2}, DType::f32, device)};
}

void moe_balance(const Stream& stream, const Tensor& logits, const Tensor& ids,
                 const MoeBalance& out, Loc at) {
  const detail::CallPlace here(at);
  static const auto* const sums = new auto(kernel("moe_balance", BalanceKernel{}));
  static const auto* const plans = new CallPlans;
  check_logits(logits);
  const std::int64_t experts = logits.size(1);
  check_moe_tensor("ids", ids, {logits.size(0), ids.rank() == 2 ? ids.size(1) : 0}, DType::i32,
                   logits);
  check_moe_tensor("counts", out.counts, {experts}, DType::i32, logits);
  check_moe_tensor("probability", out.probability, {experts}, DType::f32, logits);
  check_moe_tensor("losses", out.losses, {2}, DType::f32, logits);
  const auto args = tensor_args(logits, ids, out.counts, out.probability, out.losses);
  plans->call(stream, args, {}, [&](PlanBuilder& plan) {
    const std::int64_t tiles = tiles_of_tokens(logits);
    plan.launch(*sums, plan.argument(0), plan.argument(1), plan.counters(1),
                plan.scratch({tiles, experts}, DType::f32),
                plan.scratch({tiles, experts}, DType::i32), plan.scratch({tiles, 1}, DType::f32),
                plan.argument(2), plan.argument(3), plan.argument(4));
  });
}

void moe_balance_gradient(const Stream& stream, const Tensor& logits, const MoeBalance& balance,
                          float balance_weight, float z_weight, const Tensor& dlogits, Loc at) {
  const detail::CallPlace here(at);
  static const auto* const gradient = new auto(kernel("moe_balance_gradient", BalanceGradient{}));
  check_logits(logits);
  check_moe_tensor("counts", balance.counts, {logits.size(1)}, DType::i32, logits);
  check_moe_tensor("dlogits", dlogits, logits.shape(), DType::f32, logits);
  (*gradient)(stream, logits, balance.counts, dlogits, balance_weight, z_weight);
}

void moe_update_bias(const Stream& stream, const Tensor& counts, const Tensor& bias, float gamma,
                     Loc at) {
  const detail::CallPlace here(at);
  static const auto* const update = new auto(kernel("moe_update_bias", UpdateBias{}));
  check_moe_tensor("counts", counts, {counts.numel()}, DType::i32, counts);
  check_moe_tensor("bias", bias, counts.shape(), DType::f32, counts);
  (*update)(stream, counts, bias, gamma);
}

void noisy_top_k_sums(const Stream& stream, const Tensor& logits, const Tensor& noise_logits,
                      const Tensor& noise, int k, const NoisyTopKSums& out, Loc at) {
  const detail::CallPlace here(at);
  static const auto* const sums = new auto(kernel("moe_noisy_sums", NoisySums{}));
  static const auto* const plans = new CallPlans;
  check_logits(logits);
  const std::int64_t experts = logits.size(1);
  if (k < 1 || k >= experts) throw_argument_error(ErrorId::moe_options, experts, k, 0);
  check_moe_tensor("noise_logits", noise_logits, logits.shape(), DType::f32, logits);
  check_moe_tensor("noise", noise, logits.shape(), DType::f32, logits);
  check_moe_tensor("importance", out.importance, {experts}, DType::f32, logits);
  check_moe_tensor("load", out.load, {experts}, DType::f32, logits);
  check_moe_tensor("losses", out.losses, {2}, DType::f32, logits);
  const auto args = tensor_args(logits, noise_logits, noise, out.importance, out.load, out.losses);
  plans->call(stream, args, PlanOptions{k}, [&](PlanBuilder& plan) {
    const std::int64_t tiles = tiles_of_tokens(logits);
    const auto partials = [&] { return plan.scratch({tiles, experts}, DType::f32); };
    plan.launch(*sums, plan.argument(0), plan.argument(1), plan.argument(2), plan.counters(1),
                partials(), partials(), plan.argument(3), plan.argument(4), plan.argument(5), k);
  });
}

}  // namespace tegula::kernels
