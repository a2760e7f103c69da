#pragma once
// Tensors of consecutive sequences of different lengths.
#include <algorithm>

#include "tests/differential/attention/attention_reference.h"

namespace tegula::test {

struct Lengths {
  std::vector<i32> q, kv;
};

inline std::vector<i32> starts_of(const std::vector<i32>& lengths) {
  std::vector<i32> starts{0};
  for (const i32 n : lengths) starts.push_back(starts.back() + n);
  return starts;
}

/// Queries, keys and values of all sequences, and some rows behind them. What no sequence owns
/// shows where it is read: values are large, queries and keys NaN. Outputs hold NaN before.
struct Packed {
  Tensors all;
  std::vector<i32> q_starts, kv_starts;
  CuSeqlens lengths;

  Packed(const Lengths& l, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
         std::int64_t head_dim_v, DType dtype, Device device, std::int64_t spare = 3)
      : all({}, {}, {}, {}, {}, {}), q_starts(starts_of(l.q)), kv_starts(starts_of(l.kv)) {
    const std::int64_t q = q_starts.back(), kv = kv_starts.back();
    const auto of = [&](std::int64_t used, const Dims& shape, double rest, std::uint64_t seed) {
      const Tensor t = Tensor::normal(shape, dtype, 0, 1, seed, device);
      t.slice(0, used, shape[0]).fill(rest);
      return t;
    };
    all.Q = of(q, {q + spare, heads, dim}, NAN, 1);
    all.K = of(kv, {kv + spare, kv_heads, dim}, NAN, 2);
    all.V = of(kv, {kv + spare, kv_heads, head_dim_v}, 1000, 3);
    all.O = Tensor::full({q + spare, heads, head_dim_v}, NAN, dtype, device);
    all.Lse = Tensor::full({q + spare, heads}, NAN, DType::f32, device);
    all.Max = Tensor::full({q + spare, heads}, NAN, DType::f32, device);
    lengths = {Tensor::from(q_starts, device), Tensor::from(kv_starts, device),
               l.q.empty() ? 0 : *std::ranges::max_element(l.q)};
  }

  /// Overwrites keys and values of sequences without queries, and those after the last sequence.
  void spoil_unattended() const {
    std::vector<RowRange> hidden{{kv_starts.back(), static_cast<int>(all.K.size(0))}};
    for (std::size_t b = 0; b + 1 < q_starts.size(); ++b)
      if (q_starts[b] == q_starts[b + 1]) hidden.push_back({kv_starts[b], kv_starts[b + 1]});
    spoil(all, hidden, 0);
  }

  void run(const Attention& attention, const Tensor& sinks = {}) const {
    attention.varlen(Stream(all.Q.device()), all.Q, all.K, all.V, all.O, lengths,
                     all.extras(sinks));
  }

  void expect(const HostAttention& host) const {
    const std::int64_t heads = all.Q.size(1), group = heads / all.K.size(1);
    for (std::size_t b = 0; b + 1 < q_starts.size(); ++b)
      for (int h = 0; h < heads; ++h) {
        const auto rows = [&](const Tensor& t, const std::vector<i32>& at, std::int64_t head) {
          return t.slice(0, at[b], at[b + 1]).select(1, head);
        };
        const Tensors one(rows(all.Q, q_starts, h), rows(all.K, kv_starts, h / group),
                          rows(all.V, kv_starts, h / group), rows(all.O, q_starts, h),
                          rows(all.Lse, q_starts, h),
                          all.Max.defined() ? rows(all.Max, q_starts, h) : Tensor());
        expect_head(host, one, static_cast<int>(b), h);
        if (testing::Test::HasFatalFailure()) return;
      }
    std::vector<Tensor> outputs{all.O, all.Lse};
    if (all.Max.defined()) outputs.push_back(all.Max);
    for (const Tensor& t : outputs)
      for (const double x : t.slice(0, q_starts.back(), t.size(0)).to_doubles())
        ASSERT_TRUE(std::isnan(x)) << "a row behind the last sequence was written";
  }
};

}  // namespace tegula::test
