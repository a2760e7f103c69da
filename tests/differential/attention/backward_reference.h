#pragma once
// Gradients of attention in double precision, for one head at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "tests/differential/attention/attention_reference.h"

namespace tegula::test {

/// Tensors of a backward call. Outputs are full of NaN before it.
struct BackwardCase {
  Extents extents;
  HostAttention host;
  bool is_softmax = true;  ///< else weights are scores
  std::optional<BlockList> blocks = {};
  Tensor Q, K, V, O, lse, dO, dlse, sinks, dQ, dK, dV, dsinks;
  std::vector<CapturedGradient> captured = {};

  BackwardCase(const Extents& e, Device device, DType dtype = DType::bf16, std::uint64_t seed = 1)
      : extents(e) {
    const Tensors t(e, dtype, Order::bhsd, device, seed);
    Q = t.Q, K = t.K, V = t.V, O = t.O, lse = t.Lse;
    dO = Tensor::normal(O.shape(), dtype, 0, 1, seed * 10 + 4, device);
    const auto nan = [&](const Tensor& like) {
      return Tensor::full(like.shape(), NAN, like.dtype(), device);
    };
    dQ = nan(Q), dK = nan(K), dV = nan(V);
  }
  /// Adds sinks and a gradient of lse.
  void with_sinks(std::uint64_t seed = 7) {
    const Dims heads{extents.heads};
    sinks = Tensor::normal(heads, DType::f32, 0, 1, seed, Q.device());
    dlse = Tensor::normal(lse.shape(), DType::f32, 0, 1, seed + 1, Q.device());
    dsinks = Tensor::full(heads, NAN, DType::f32, Q.device());
    host.sink = [values = sinks.to_doubles()](int h) {
      return values[static_cast<std::size_t>(h)];
    };
  }
  void run(const Attention& a) const { run(a, Stream(Q.device())); }
  void run(const Attention& a, const Stream& stream) const {
    const Tensor saved = is_softmax ? lse : Tensor();
    a(stream, Q, K, V, O, {.lse = saved, .sinks = sinks});
    a.backward(stream, Q, K, V, {.O = O, .lse = saved, .sinks = sinks, .blocks = blocks},
               {.O = dO, .lse = dlse},
               {.Q = dQ, .K = dK, .V = dV, .sinks = dsinks, .captured = captured});
  }
};

/// Gradients in doubles, and for each the sum of the magnitudes of its terms.
struct ExpectedGradients {
  std::vector<double> q, k, v, sinks, q_size, k_size, v_size;
};

/// A score and its derivative, by central differences, of a pair {b, h, q, kv}.
inline std::pair<double, double> score_and_slope(const HostAttention& host, double x,
                                                 const std::array<std::int64_t, 4>& pair) {
  constexpr double kStep = 1e-5;
  const auto at = [&](double s) {
    return host.score(s, static_cast<int>(pair[0]), static_cast<int>(pair[1]),
                      static_cast<int>(pair[2]), static_cast<int>(pair[3]));
  };
  return {at(x), (at(x + kStep) - at(x - kStep)) / (2 * kStep)};
}

/// Receives a pair {b, h, q, kv}, its scaled product, the gradient of its score, and the sum of the
/// magnitudes of that gradient's terms.
using OnPair =
    std::function<void(const std::array<std::int64_t, 4>&, double s, double gradient, double size)>;

inline ExpectedGradients expected_gradients(const BackwardCase& c, const OnPair& on_pair = {}) {
  const Extents& e = c.extents;
  const auto to = [](const Tensor& t) {
    return t.defined() ? t.to_doubles() : std::vector<double>();
  };
  const auto q = to(c.Q), k = to(c.K), v = to(c.V), grad = to(c.dO), dlse = to(c.dlse);
  ExpectedGradients x;
  x.q.resize(q.size()), x.q_size.resize(q.size());
  x.k.resize(k.size()), x.k_size.resize(k.size());
  x.v.resize(v.size()), x.v_size.resize(v.size());
  x.sinks.resize(static_cast<std::size_t>(e.heads));
  const double scale = c.host.scale != 0 ? c.host.scale : 1 / std::sqrt(static_cast<double>(e.dim));
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<double> s(at(e.seqlen_kv)), products(s), slope(s.size()), p(s.size()), dp(s.size()),
      out(at(e.head_dim_v));
  for (std::int64_t b = 0; b < e.batch; ++b)
    for (std::int64_t h = 0; h < e.heads; ++h)
      for (std::int64_t i = 0; i < e.seqlen_q; ++i) {
        const std::int64_t row = (b * e.heads + h) * e.seqlen_q + i,
                           kv = (b * e.kv_heads + h / (e.heads / e.kv_heads)) * e.seqlen_kv;
        const double sink = c.host.sink(static_cast<int>(h));
        double top = sink;
        for (std::int64_t j = 0; j < e.seqlen_kv; ++j) {
          s[at(j)] = -INFINITY;
          if (!c.host.mask(static_cast<int>(b), static_cast<int>(h), static_cast<int>(i),
                           static_cast<int>(j)))
            continue;
          double dot = 0;
          for (std::int64_t d = 0; d < e.dim; ++d)
            dot += q[at(row * e.dim + d)] * k[at((kv + j) * e.dim + d)];
          products[at(j)] = dot * scale;
          const auto [value, derivative] = score_and_slope(c.host, dot * scale, {b, h, i, j});
          s[at(j)] = value, slope[at(j)] = derivative;
          top = std::max(top, s[at(j)]);
        }
        if (std::isinf(top)) continue;  // no keys and no sink
        if (!c.is_softmax) top = 0;
        out.assign(out.size(), 0);
        double sum = std::exp(sink - top), d_of_row = dlse.empty() ? 0 : -dlse[at(row)];
        for (double one : s) sum += std::exp(one - top);
        for (std::int64_t j = 0; j < e.seqlen_kv; ++j) {
          p[at(j)] = c.is_softmax           ? std::exp(s[at(j)] - top) / sum
                     : std::isinf(s[at(j)]) ? 0
                                            : s[at(j)];
          dp[at(j)] = 0;
          for (std::int64_t d = 0; d < e.head_dim_v; ++d)
            dp[at(j)] += grad[at(row * e.head_dim_v + d)] * v[at((kv + j) * e.head_dim_v + d)];
          if (p[at(j)] == 0) continue;
          d_of_row += p[at(j)] * dp[at(j)];
          for (std::int64_t d = 0; d < e.head_dim_v; ++d)
            out[at(d)] += p[at(j)] * v[at((kv + j) * e.head_dim_v + d)];
        }
        double d_size = 0;  // O is rounded before D is computed of it
        for (std::int64_t d = 0; d < e.head_dim_v; ++d)
          d_size += std::abs(out[at(d)] * grad[at(row * e.head_dim_v + d)]);
        x.sinks[at(h)] -= std::exp(sink - top) / sum * d_of_row;
        for (std::int64_t j = 0; j < e.seqlen_kv; ++j) {
          if (std::isinf(s[at(j)])) continue;
          const double by = c.is_softmax ? p[at(j)] : 1,
                       dg = by * (c.is_softmax ? dp[at(j)] - d_of_row : dp[at(j)]),
                       dg_size = by * (std::abs(dp[at(j)]) + std::abs(d_of_row) + d_size),
                       ds = dg * slope[at(j)], size = dg_size * std::abs(slope[at(j)]);
          if (on_pair) on_pair({b, h, i, j}, products[at(j)], dg, dg_size);
          for (std::int64_t d = 0; d < e.dim; ++d) {
            const std::size_t mine = at(row * e.dim + d), theirs = at((kv + j) * e.dim + d);
            x.q[mine] += scale * ds * k[theirs];
            x.q_size[mine] += scale * size * std::abs(k[theirs]);
            x.k[theirs] += scale * ds * q[mine];
            x.k_size[theirs] += scale * size * std::abs(q[mine]);
          }
          for (std::int64_t d = 0; d < e.head_dim_v; ++d) {
            const std::size_t of = at(row * e.head_dim_v + d),
                              into = at((kv + j) * e.head_dim_v + d);
            x.v[into] += p[at(j)] * grad[of];
            x.v_size[into] += std::abs(p[at(j)] * grad[of]);
          }
        }
      }
  return x;
}

/// Compares a gradient, whose terms are rounded to `unit`; O, of which D is computed, too.
inline void expect_gradient(const char* name, const Tensor& got, const std::vector<double>& want,
                            const std::vector<double>& size, double unit) {
  if (!got.defined()) return;
  const auto values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size()) << name;
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], want[i], size[i] * (3 * unit + 1e-3) + 1e-5) << name << " " << i;
}

inline void expect_backward(const BackwardCase& c) {
  const ExpectedGradients x = expected_gradients(c);
  const double unit = roundoff(c.Q.dtype());
  expect_gradient("dQ", c.dQ, x.q, x.q_size, unit);
  expect_gradient("dK", c.dK, x.k, x.k_size, unit);
  expect_gradient("dV", c.dV, x.v, x.v_size, unit);
  if (!c.dsinks.defined()) return;
  const auto sinks = c.dsinks.to_doubles();
  const double rows = static_cast<double>(c.extents.batch * c.extents.seqlen_q);
  for (std::size_t h = 0; h < sinks.size(); ++h)
    ASSERT_NEAR(sinks[h], x.sinks[h], 0.02 * std::sqrt(rows) + 1e-3) << "sink " << h;
}

/// Makes the forward and the backward call, and compares all gradients.
inline void check_backward(const AttentionSpec& spec, const BackwardCase& c,
                           const AttentionNumerics& numerics = {}) {
  SCOPED_TRACE(c.extents.str());
  c.run(Attention(spec, {}, numerics));
  expect_backward(c);
}

}  // namespace tegula::test
