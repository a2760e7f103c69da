#pragma once
// Attention against double precision: one call of the library, every row of it checked.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test {
using namespace kernels;

/// Mask and score on numbers: batch entry, head, positions of query and key.
struct HostAttention {
  std::function<bool(int b, int h, int q, int kv)> mask = [](int, int, int, int) { return true; };
  std::function<double(double s, int b, int h, int q, int kv)> score = [](double s, int, int, int,
                                                                          int) { return s; };
  std::function<double(int h)> sink = [](int) { return -INFINITY; };
  double scale = 0;  ///< 0: 1 / sqrt(head dim)
};

/// Order of the dimensions in memory.
enum class Order { bhsd, bshd };

struct Extents {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, seqlen_q = 1, seqlen_kv = 1, dim = 64,
               head_dim_v = 64;
  std::string str() const {
    std::string text;
    for (std::int64_t n : {batch, heads, kv_heads, seqlen_q, seqlen_kv, dim, head_dim_v})
      text += std::to_string(n) + " ";
    return text;
  }
};

/// Tensors of one call, [batch, heads, length, dim] whatever their order in memory. Outputs lie in
/// tensors of NaN, so that what was not stored shows.
struct Tensors {
  Tensor Q, K, V, O, Lse, Max;

  Tensors(const Extents& e, DType dtype, Order order, Device device, std::uint64_t seed = 1) {
    const auto shaped = [&](std::int64_t heads, std::int64_t length, std::int64_t dim) {
      return order == Order::bhsd ? Dims{e.batch, heads, length, dim}
                                  : Dims{e.batch, length, heads, dim};
    };
    const auto normal = [&](const Dims& shape, std::uint64_t of) {
      const Tensor t = Tensor::normal(shape, dtype, 0, 1, seed * 10 + of, device);
      return order == Order::bhsd ? t : t.transpose(1, 2);
    };
    Q = normal(shaped(e.heads, e.seqlen_q, e.dim), 1);
    K = normal(shaped(e.kv_heads, e.seqlen_kv, e.dim), 2);
    V = normal(shaped(e.kv_heads, e.seqlen_kv, e.head_dim_v), 3);
    O = Tensor::full(shaped(e.heads, e.seqlen_q, e.head_dim_v), NAN, dtype, device);
    if (order == Order::bshd) O = O.transpose(1, 2);
    Lse = Tensor::full({e.batch, e.heads, e.seqlen_q}, NAN, DType::f32, device);
    Max = Tensor::full({e.batch, e.heads, e.seqlen_q}, NAN, DType::f32, device);
  }
  Tensors(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor max)
      : Q(std::move(q)),
        K(std::move(k)),
        V(std::move(v)),
        O(std::move(o)),
        Lse(std::move(lse)),
        Max(std::move(max)) {}
  /// All outputs there are.
  AttentionExtras extras(Tensor sinks = {}) const { return {Lse, Max, std::move(sinks)}; }
};

struct RowRange {
  int first, end;
};

/// Overwrites rows of K and V, which are dimension `dim`, by NaN, infinity and -infinity in turn.
inline void spoil(const Tensors& t, const std::vector<RowRange>& hidden, int dim = 2) {
  constexpr std::array kBad{static_cast<double>(NAN), static_cast<double>(INFINITY),
                            -static_cast<double>(INFINITY)};
  for (const RowRange& rows : hidden)
    for (int i = rows.first; i < rows.end; ++i)
      for (const Tensor& x : {t.K, t.V})
        x.slice(dim, i, i + 1).fill(kBad[static_cast<std::size_t>(i) % kBad.size()]);
}

/// Unit roundoff of what weights and outputs are rounded to.
inline double roundoff(DType dtype) { return std::ldexp(1, dtype == DType::bf16 ? -8 : -11); }

/// One head of one batch entry in row-major doubles.
struct Head {
  std::vector<double> q, k, v, o, lse, max;  ///< max: empty where it is not asked for
  std::size_t dim, head_dim_v;
  std::size_t rows() const { return q.size() / dim; }
  std::size_t keys() const { return k.size() / dim; }
};

/// Compares row i of the reference with the result. Weights and outputs are each rounded to the
/// tensors' type; row sums are f32. Inputs of the exponential carry the error of f32 products.
inline void expect_row(const HostAttention& host, const Head& t, int b, int h, std::size_t i,
                       double unit) {
  const double scale = host.scale != 0 ? host.scale : 1 / std::sqrt(static_cast<double>(t.dim));
  const double sink = host.sink(h);
  std::vector<double> w(t.keys(), -INFINITY);
  double largest = -INFINITY;
  for (std::size_t j = 0; j < w.size(); ++j) {
    if (!host.mask(b, h, static_cast<int>(i), static_cast<int>(j))) continue;
    double s = 0;
    for (std::size_t d = 0; d < t.dim; ++d) s += t.q[i * t.dim + d] * t.k[j * t.dim + d];
    w[j] = host.score(s * scale, b, h, static_cast<int>(i), static_cast<int>(j));
    largest = std::max(largest, w[j]);
  }
  const double top = std::max(largest, sink);
  double sum = std::isinf(sink) ? 0 : std::exp(sink - top);
  for (double& x : w) sum += x = std::isinf(top) ? 0 : std::exp(x - top);
  for (std::size_t c = 0; c < t.head_dim_v; ++c) {
    double want = 0, magnitude = 0;
    for (std::size_t j = 0; j < w.size(); ++j) {
      if (w[j] == 0) continue;
      want += w[j] / sum * t.v[j * t.head_dim_v + c];
      magnitude += w[j] / sum * std::abs(t.v[j * t.head_dim_v + c]);
    }
    ASSERT_NEAR(t.o[i * t.head_dim_v + c], want, magnitude * (2 * unit + 1e-3) + 1e-6)
        << "b " << b << " h " << h << " row " << i << " column " << c;
  }
  const double lse = sum == 0 ? -INFINITY : top + std::log(sum);
  if (t.lse[i] != lse) {  // both may be -inf
    ASSERT_TRUE(std::isfinite(lse)) << "lse of " << i << ": " << t.lse[i];
    ASSERT_NEAR(t.lse[i], lse, 1e-3 * (1 + std::abs(lse))) << "lse of " << i;
  }
  if (!t.max.empty() && t.max[i] != largest) {
    ASSERT_TRUE(std::isfinite(largest)) << "row_max of " << i << ": " << t.max[i];
    ASSERT_NEAR(t.max[i], largest, 1e-3 * (1 + std::abs(largest))) << "row_max of " << i;
  }
}

/// All rows of one head: [length, dim], logarithms and maxima [length].
inline void expect_head(const HostAttention& host, const Tensors& t, int b, int h) {
  const Head head{t.Q.to_doubles(),
                  t.K.to_doubles(),
                  t.V.to_doubles(),
                  t.O.to_doubles(),
                  t.Lse.to_doubles(),
                  t.Max.defined() ? t.Max.to_doubles() : std::vector<double>(),
                  static_cast<std::size_t>(t.Q.size(1)),
                  static_cast<std::size_t>(t.V.size(1))};
  for (std::size_t i = 0; i < head.rows(); ++i) {
    expect_row(host, head, b, h, i, roundoff(t.Q.dtype()));
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// One query head of one entry and the keys that it sees; `maxima`: with row_max.
inline Tensors head_of(const Tensors& t, int b, int h, bool maxima) {
  const std::int64_t group = t.Q.size(1) / t.K.size(1);
  const auto of = [&](const Tensor& x, std::int64_t head) {
    return x.select(0, b).select(0, head);
  };
  return {of(t.Q, h), of(t.K, h / group), of(t.V, h / group),
          of(t.O, h), of(t.Lse, h),       maxima ? of(t.Max, h) : Tensor()};
}

/// Kernels that the latest call's has been compiled to, by all calls so far.
inline std::size_t times_compiled(const Attention& attention) {
  const std::string why = attention.explain(), word = "compiled: ";
  std::size_t count = 0;
  for (std::size_t at = why.find(word); at != std::string::npos; at = why.find(word, at + 1))
    ++count;
  return count;
}

/// Whether in the latest call several clusters shared the keys of a tile.
inline bool meets_in_memory(const Attention& attention, DType dtype = DType::bf16) {
  return attention.dump("trace", dtype).find("arrive_and_test_last") != std::string::npos;
}

/// Every row of every head; `maxima`: of row_max too.
inline void expect_attention(const HostAttention& host, const Tensors& t, bool maxima = false) {
  for (int b = 0; b < t.Q.size(0); ++b)
    for (int h = 0; h < t.Q.size(1); ++h) {
      expect_head(host, head_of(t, b, h, maxima), b, h);
      if (testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace tegula::test
