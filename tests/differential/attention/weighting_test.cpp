// Weights other than softmax: the scores themselves, and stick breaking.
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::weighting_test {
using namespace kernels;
namespace {

class AttentionWeighting : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, AttentionWeighting, testing::ValuesIn(devices()), device_name);

/// The weights of one row's keys by the scores of those it sees, -inf for others; `left`: the
/// logarithm of the weight that none took.
struct RowOfWeights {
  std::vector<double> weights;
  double left = 0;
};
RowOfWeights as_they_are(std::vector<double> scores) {
  for (double& s : scores) s = s == -INFINITY ? 0 : s;
  return {std::move(scores)};
}
RowOfWeights broken_sticks(std::vector<double> scores) {
  RowOfWeights row{std::move(scores)};
  for (std::size_t j = row.weights.size(); j-- > 0;) {
    const double taken = 1 / (1 + std::exp(-row.weights[j]));
    row.weights[j] = taken * std::exp(row.left);
    row.left += std::log1p(-taken);
  }
  return row;
}

using Weigh = RowOfWeights (*)(std::vector<double>);

/// Every output of one head against double precision.
void expect_weighted(const HostAttention& host, Weigh softmax_step, const Tensors& t, int b, int h,
                     bool logarithms) {
  const auto q = t.Q.to_doubles(), k = t.K.to_doubles(), v = t.V.to_doubles(), o = t.O.to_doubles(),
             lse = t.Lse.to_doubles();
  const auto dim = static_cast<std::size_t>(t.Q.size(1)),
             cols = static_cast<std::size_t>(t.V.size(1)), keys = k.size() / dim;
  const double unit = roundoff(t.Q.dtype()), scale = 1 / std::sqrt(static_cast<double>(dim));
  for (std::size_t i = 0; i < q.size() / dim; ++i) {
    std::vector<double> s(keys, -INFINITY);
    for (std::size_t j = 0; j < keys; ++j) {
      if (!host.mask(b, h, static_cast<int>(i), static_cast<int>(j))) continue;
      double product = 0;
      for (std::size_t d = 0; d < dim; ++d) product += q[i * dim + d] * k[j * dim + d];
      s[j] = host.score(product * scale, b, h, static_cast<int>(i), static_cast<int>(j));
    }
    const RowOfWeights row = softmax_step(s);
    for (std::size_t c = 0; c < cols; ++c) {
      double want = 0, magnitude = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        want += row.weights[j] * v[j * cols + c];
        magnitude += std::abs(row.weights[j] * v[j * cols + c]);
      }
      ASSERT_NEAR(o[i * cols + c], want, magnitude * (2 * unit + 1e-3) + 1e-6)
          << "b " << b << " h " << h << " row " << i << " column " << c;
    }
    if (!logarithms) continue;
    ASSERT_NEAR(lse[i], row.left, 1e-3 * (1 + std::abs(row.left))) << "row " << i;
  }
}

void expect_all(const HostAttention& host, Weigh softmax_step, const Tensors& t, bool logarithms) {
  for (int b = 0; b < t.Q.size(0); ++b)
    for (int h = 0; h < t.Q.size(1); ++h) {
      expect_weighted(host, softmax_step, head_of(t, b, h, false), b, h, logarithms);
      if (testing::Test::HasFatalFailure()) return;
    }
}

Tile sigmoid(const Tile& s) { return rcp(1.0f + exp(-s)); }

TEST_P(AttentionWeighting, ScoresAreWeights) {
  const Stream stream(GetParam());
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv && q - kv <= 70; };
  AttentionSpec spec{.mask = masks::sliding_window(70), .weighting = AttentionNormalization::none};
  const Extents e{.batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 150, .seqlen_kv = 131};
  for (const bool is_linear : {true, false}) {
    SCOPED_TRACE(testing::Message() << is_linear);
    if (!is_linear) {
      spec.score = [](Tile s, Tile, Tile, Tile, Tile) { return sigmoid(s - 2.0f); };
      host.score = [](double s, int, int, int, int) { return 1 / (1 + std::exp(2 - s)); };
    }
    const Tensors t(e, DType::bf16, Order::bshd, GetParam());
    attention(spec)(stream, t.Q, t.K, t.V, t.O);
    expect_all(host, as_they_are, t, false);
    if (HasFatalFailure()) return;
  }
}

/// With the diagonal and without it (where row 0 sees nothing), in tiles at edges, with a score of
/// positions, of heads in a group, in halves.
TEST_P(AttentionWeighting, SticksBreak) {
  const Stream stream(GetParam());
  struct Case {
    Extents extents;
    int ahead;
    bool scored;
    DType dtype;
  };
  for (const Case& c :
       {Case{{.heads = 2, .kv_heads = 2, .seqlen_q = 1, .seqlen_kv = 1}, 0, false, DType::bf16},
        Case{{.batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 150, .seqlen_kv = 150},
             1,
             false,
             DType::bf16},
        Case{{.heads = 2,
              .kv_heads = 1,
              .seqlen_q = 203,
              .seqlen_kv = 290,
              .dim = 128,
              .head_dim_v = 72},
             0,
             true,
             DType::f16}}) {
    SCOPED_TRACE(c.extents.str());
    HostAttention host;
    host.mask = [&](int, int, int q, int kv) { return q >= kv + c.ahead; };
    AttentionSpec spec{
        .mask = [ahead = c.ahead](Tile, Tile, Tile q, Tile kv) { return q >= kv + ahead; },
        .weighting = AttentionNormalization::stick_breaking};
    if (c.scored) {
      spec.score = scores::alibi(2);
      host.score = [](double s, int, int h, int q, int kv) {
        return s + (kv - q) * std::exp2(-4.0 * (h + 1));
      };
    }
    const Tensors t(c.extents, c.dtype, Order::bhsd, GetParam());
    attention(spec)(stream, t.Q, t.K, t.V, t.O, t.Lse);
    expect_all(host, broken_sticks, t, true);
    if (HasFatalFailure()) return;
  }
}

/// The heads of a group as rows of one tile, the last positions of their sequence.
TEST_P(AttentionWeighting, SticksOfADecodeStep) {
  const Extents e{.batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 3, .seqlen_kv = 131};
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q + 128 > kv; };
  const Attention call({.mask = [](Tile, Tile, Tile q, Tile kv) { return q > kv; },
                        .align_bottom_right = true,
                        .weighting = AttentionNormalization::stick_breaking});
  const Tensors t(e, DType::bf16, Order::bhsd, GetParam());
  call(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
  expect_all(host, broken_sticks, t, true);
}

/// Keys with gaps are visited in order, and a mask that needs a list has all its blocks visited.
TEST_P(AttentionWeighting, SticksBreakInOrder) {
  const Stream stream(GetParam());
  const auto check = [&](const Mask& mask, const auto& on_host, const char* way) {
    HostAttention host;
    host.mask = on_host;
    const Attention call({.mask = mask, .weighting = AttentionNormalization::stick_breaking});
    const Tensors t({.seqlen_q = 300, .seqlen_kv = 300}, DType::bf16, Order::bhsd, GetParam());
    call(stream, t.Q, t.K, t.V, t.O, t.Lse);
    EXPECT_NE(call.explain().find(way), std::string::npos) << call.explain();
    expect_all(host, broken_sticks, t, true);
  };
  check(
      masks::sink_window(5, 40),
      [](int, int, int q, int kv) { return q >= kv && (kv < 5 || q - kv <= 40); },
      "2 closed ranges");
  if (HasFatalFailure()) return;
  check([](Tile, Tile, Tile q, Tile kv) { return q >= kv && (kv / 64) % 2 == (q / 64) % 2; },
        [](int, int, int q, int kv) { return q >= kv && (kv / 64) % 2 == (q / 64) % 2; },
        "a list has no order");
}

}  // namespace
}  // namespace tegula::test::weighting_test
