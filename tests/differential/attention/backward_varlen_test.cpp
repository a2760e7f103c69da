// Attention's gradients of packed sequences against double precision, one sequence at a time.
#include "tests/differential/attention/backward_reference.h"
#include "tests/differential/attention/varlen_tensors.h"

#include <string>

#include "tegula/kernels/masks.h"

namespace tegula::test::backward_varlen_test {
using namespace kernels;
namespace {

/// A packed call. Rows that no sequence has are NaN before it, in inputs and in outputs.
struct PackedBackward {
  Packed packed;
  Tensor dO, dlse, sinks, dQ, dK, dV, dsinks;

  PackedBackward(const Lengths& l, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
                 std::int64_t head_dim_v, Device device, DType dtype = DType::bf16)
      : packed(l, heads, kv_heads, dim, head_dim_v, dtype, device) {
    const Tensors& t = packed.all;
    dO = Tensor::normal(t.O.shape(), dtype, 0, 1, 9, device);
    const auto spare = [](const Tensor& x, std::int64_t used) {
      return x.slice(0, used, x.size(0));
    };
    spare(dO, packed.q_starts.back()).fill(NAN);
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
    const Stream stream(dO.device());
    const Tensors& t = packed.all;
    a.varlen(stream, t.Q, t.K, t.V, t.O, packed.lengths, {.lse = t.Lse, .sinks = sinks});
    // Forward multiplies values after the last sequence by 0; backward reads no such rows.
    t.V.slice(0, packed.kv_starts.back(), t.V.size(0)).fill(NAN);
    a.varlen_backward(stream, t.Q, t.K, t.V, packed.lengths,
                      {.O = t.O, .lse = t.Lse, .sinks = sinks}, {.O = dO, .lse = dlse},
                      {.Q = dQ, .K = dK, .V = dV, .sinks = dsinks});
  }
  /// Compares each sequence with a dense reference; `host` has positions within a sequence.
  void expect(const HostAttention& host) const;
};

/// Rows [first, end) of a packed tensor as one dense batch entry.
Tensor dense(const Tensor& t, i32 first, i32 end) {
  if (!t.defined()) return t;
  const Tensor rows = t.slice(0, first, end).transpose(0, 1).contiguous();
  Dims shape{1};
  for (const std::int64_t n : rows.shape()) shape.push_back(n);
  return rows.reshape(shape);
}

void PackedBackward::expect(const HostAttention& host) const {
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
    c.host.mask = [&](int, int h, int i, int j) {
      return host.mask(static_cast<int>(b), h, i, j);
    };
    if (sinks.defined()) c.with_sinks(5);
    c.Q = dense(t.Q, q, q_end), c.K = dense(t.K, kv, kv_end), c.V = dense(t.V, kv, kv_end);
    c.dO = dense(dO, q, q_end), c.dlse = dense(dlse, q, q_end);
    c.dQ = dense(dQ, q, q_end), c.dK = dense(dK, kv, kv_end), c.dV = dense(dV, kv, kv_end);
    const Tensor of_call = c.dsinks;
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
  for (std::size_t h = 0; h < got.size(); ++h) ASSERT_NEAR(got[h], of_sinks[h], 0.5) << h;
}

class BackwardVarlen : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, BackwardVarlen, testing::ValuesIn(devices()), device_name);

HostAttention causal() {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  return host;
}

TEST_P(BackwardVarlen, LengthsAndGroups) {
  for (const Lengths& l : {Lengths{{70, 1, 0, 130, 64}, {70, 1, 0, 130, 64}},
                           Lengths{{5, 0, 140, 30}, {200, 40, 3, 0}}})
    for (const int kv_heads : {4, 1})
      for (const bool is_causal : {false, true}) {
        SCOPED_TRACE(testing::Message() << l.q.size() << " " << kv_heads << " " << is_causal);
        const PackedBackward c(l, 4, kv_heads, 64, 40, GetParam());
        c.run(Attention({.mask = is_causal ? masks::causal() : Mask()}));
        c.expect(is_causal ? causal() : HostAttention());
        if (HasFatalFailure()) return;
      }
}

TEST_P(BackwardVarlen, SinksAndGradientOfLse) {
  PackedBackward c({{70, 0, 33}, {90, 20, 33}}, 2, 1, 32, 32, GetParam(), DType::f16);
  c.with_sinks();
  c.run(Attention({.mask = masks::causal()}));
  HostAttention host = causal();
  host.sink = [values = c.sinks.to_doubles()](int h) {
    return values[static_cast<std::size_t>(h)];
  };
  c.expect(host);
}

TEST_P(BackwardVarlen, AlignedBottomRightWithAScore) {
  const Lengths l{{40, 64, 1}, {100, 64, 129}};
  const PackedBackward c(l, 2, 1, 64, 64, GetParam());
  c.run(Attention({.mask = masks::causal(),
                   .score = [](const Tile& s, const Tile&, const Tile&, const Tile& q,
                               const Tile& kv) { return s + cast<f32>(kv - q) * 0.1f; },
                   .align_bottom_right = true}));
  HostAttention host;
  // Terms that all keys of a query share do not matter, so the shift of the score does not either.
  host.score = [](double s, int, int, int q, int kv) { return s + 0.1 * (kv - q); };
  host.mask = [l](int b, int, int q, int kv) {
    const auto i = static_cast<std::size_t>(b);
    return q + l.kv[i] - l.q[i] >= kv;
  };
  c.expect(host);
}

/// A table of each head's blocks has to be evaluated; the lists of a group are merged.
TEST_P(BackwardVarlen, Lists) {
  constexpr int kBlocks = 5;
  const Tensor table = Tensor::integers({4, kBlocks, kBlocks}, DType::i32, 0, 2, 5, GetParam());
  const auto kept = table.to_doubles();
  for (const int kv_heads : {4, 2}) {
    SCOPED_TRACE(kv_heads);
    const PackedBackward c({{300, 20, 0, 150}, {290, 20, 10, 150}}, 4, kv_heads, 32, 32,
                           GetParam());
    c.run(Attention({.mask = [=](Tile, Tile h, Tile q, Tile kv) {
      return fill_absent(view<i32, 3>(table)(h, q / 64, kv / 64), 0) != 0;
    }}));
    HostAttention host;
    host.mask = [=](int, int h, int q, int kv) {
      return kept[static_cast<std::size_t>((h * kBlocks + q / 64) * kBlocks + kv / 64)] != 0;
    };
    c.expect(host);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardVarlen, WithoutSequencesOrRows) {
  for (const Lengths& l : {Lengths{{}, {}}, Lengths{{0, 0}, {0, 0}}, Lengths{{0, 0}, {70, 5}},
                           Lengths{{70, 5}, {0, 0}}}) {
    SCOPED_TRACE(testing::Message() << l.q.size());
    PackedBackward c(l, 2, 1, 32, 32, GetParam());
    c.with_sinks();
    c.run(Attention({.mask = masks::causal()}));
    HostAttention host = causal();
    host.sink = [values = c.sinks.to_doubles()](int h) {
      return values[static_cast<std::size_t>(h)];
    };
    c.expect(host);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardVarlen, Errors) {
  const PackedBackward c({{20}, {20}}, 1, 1, 32, 32, GetParam());
  const Tensors& t = c.packed.all;
  const Attention attention({.mask = masks::causal()});
  const auto expect_refused = [&](const CuSeqlens& lengths, const AttentionSaved& saved,
                                  const char* code, const char* text) {
    try {
      attention.varlen_backward(Stream(GetParam()), t.Q, t.K, t.V, lengths, saved, {c.dO, {}},
                                {c.dQ, c.dK, c.dV, {}});
      ADD_FAILURE() << "no error: " << text;
    } catch (const CompileError& e) {
      EXPECT_NE(std::string(e.what()).find(code), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("backward_varlen_test.cpp"), std::string::npos);
    }
  };
  expect_refused({}, {.O = t.O, .lse = t.Lse}, "T1607", "cu_seqlens");
  expect_refused(c.packed.lengths, {.O = t.O}, "T1662", "lse");
  expect_refused(c.packed.lengths, {.O = t.O, .lse = t.Lse, .blocks = BlockList()}, "T1662",
                 "saved.blocks");
}

}  // namespace
}  // namespace tegula::test::backward_varlen_test
