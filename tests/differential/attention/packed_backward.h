#pragma once
// A backward call of packed sequences, compared with double precision one sequence at a time.
#include "tests/differential/attention/backward_reference.h"
#include "tests/differential/attention/varlen_tensors.h"

namespace tegula::test {

/// A packed call. Rows that no sequence has are NaN before it, in inputs and in outputs.
struct PackedBackward {
  Packed packed;
  Tensor dO, dlse, sinks, dQ, dK, dV, dsinks;
  std::vector<CapturedGradient> captured = {};
  std::optional<BlockList> blocks = {};  ///< AttentionSaved::blocks

  PackedBackward(const Lengths& l, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
                 std::int64_t head_dim_v, Device device, DType dtype = DType::bf16)
      : packed(l, heads, kv_heads, dim, head_dim_v, dtype, device) {
    const Tensors& t = packed.all;
    dO = Tensor::normal(t.O.shape(), dtype, 0, 1, 9, device);
    const auto spare = [](const Tensor& x, std::int64_t used) {
      return x.slice(0, used, x.size(0));
    };
    spare(dO, packed.q_starts.back()).fill(NAN);
    spare(t.V, packed.kv_starts.back()).fill(NAN);
    const auto nan = [&](const Tensor& like) {
      return Tensor::full(like.shape(), NAN, like.dtype(), device);
    };
    dQ = nan(t.Q), dK = nan(t.K), dV = nan(t.V);
  }
  void with_sinks() {
    const Device device = dO.device();
    sinks = Tensor::normal({dO.size(1)}, DType::f32, 0, 1, 5, device);
    dlse = Tensor::normal({dO.size(0), dO.size(1)}, DType::f32, 0, 1, 6, device);
    dsinks = Tensor::full({dO.size(1)}, NAN, DType::f32, device);
  }
  void run(const Attention& a) const {
    const Tensors& t = packed.all;
    a.varlen(Stream(dO.device()), t.Q, t.K, t.V, t.O, packed.lengths,
             {.lse = t.Lse, .sinks = sinks});
    run_backward(a);
  }
  void run_backward(const Attention& a) const {
    const Tensors& t = packed.all;
    a.varlen_backward(Stream(dO.device()), t.Q, t.K, t.V, packed.lengths,
                      {.O = t.O, .lse = t.Lse, .sinks = sinks, .blocks = blocks},
                      {.O = dO, .lse = dlse},
                      {.Q = dQ, .K = dK, .V = dV, .sinks = dsinks, .captured = captured});
  }
  /// Compares each sequence with a dense reference; `host` has positions within a sequence.
  void expect(const HostAttention& host) const;
};

/// Rows [first, end) of a packed tensor as one dense batch entry.
inline Tensor dense_rows(const Tensor& t, i32 first, i32 end) {
  if (!t.defined()) return t;
  const Tensor rows = t.slice(0, first, end).transpose(0, 1).contiguous();
  Dims shape{1};
  for (const std::int64_t n : rows.shape()) shape.push_back(n);
  return rows.reshape(shape);
}

inline void PackedBackward::expect(const HostAttention& host) const {
  const Tensors& t = packed.all;
  std::vector<double> of_sinks(static_cast<std::size_t>(t.Q.size(1)));
  for (std::size_t b = 0; b + 1 < packed.q_starts.size(); ++b) {
    SCOPED_TRACE(testing::Message() << "sequence " << b);
    const i32 q = packed.q_starts[b], q_end = packed.q_starts[b + 1], kv = packed.kv_starts[b],
              kv_end = packed.kv_starts[b + 1];
    BackwardCase c({.heads = static_cast<int>(t.Q.size(1)),
                    .kv_heads = static_cast<int>(t.K.size(1)),
                    .seqlen_q = q_end - q,
                    .seqlen_kv = kv_end - kv,
                    .dim = static_cast<int>(t.Q.size(2)),
                    .head_dim_v = static_cast<int>(t.V.size(2))},
                   dO.device(), t.Q.dtype());
    c.host = host;
    c.host.mask = [&](int, int h, int i, int j) { return host.mask(static_cast<int>(b), h, i, j); };
    if (sinks.defined()) c.with_sinks(5);
    c.Q = dense_rows(t.Q, q, q_end), c.K = dense_rows(t.K, kv, kv_end);
    c.V = dense_rows(t.V, kv, kv_end);
    c.dO = dense_rows(dO, q, q_end), c.dlse = dense_rows(dlse, q, q_end);
    c.dQ = dense_rows(dQ, q, q_end), c.dK = dense_rows(dK, kv, kv_end);
    c.dV = dense_rows(dV, kv, kv_end);
    c.dsinks = Tensor();
    expect_backward(c);
    if (testing::Test::HasFatalFailure()) return;
    const ExpectedGradients x = expected_gradients(c);
    for (std::size_t h = 0; h < of_sinks.size(); ++h) of_sinks[h] += x.sinks[h];
  }
  for (const auto& [out, used] : {std::pair{dQ, packed.q_starts.back()},
                                  {dK, packed.kv_starts.back()},
                                  {dV, packed.kv_starts.back()}})
    for (const double x : out.slice(0, used, out.size(0)).to_doubles())
      ASSERT_TRUE(std::isnan(x)) << "a row after the last sequence was written";
  if (!dsinks.defined()) return;
  const auto got = dsinks.to_doubles();
  const double bound = 0.02 * std::sqrt(static_cast<double>(packed.q_starts.back())) + 1e-3;
  for (std::size_t h = 0; h < got.size(); ++h) ASSERT_NEAR(got[h], of_sinks[h], bound) << h;
}

}  // namespace tegula::test
