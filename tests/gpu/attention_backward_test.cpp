// Attention's gradients on the GPU, by both back ends, against double precision.
#include "tests/differential/attention/captured_scores.h"
#include "tests/differential/attention/packed_backward.h"
#include "tests/gpu/by_back_end.h"

#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"

namespace tegula::attention_backward_test {
using namespace kernels;
using namespace test;
namespace {

class AttentionBackward : public ByBackEnd {
 protected:
  static void mask_by(BackwardCase& c, std::function<bool(int q, int kv)> mask) {
    c.host.mask = [mask = std::move(mask)](int, int, int q, int kv) { return mask(q, kv); };
  }
};
INSTANTIATE_TEST_SUITE_P(BackEnds, AttentionBackward, testing::Values("llvm", "nvrtc"));

TEST_P(AttentionBackward, AgreesWithDoubles) {
  struct Case {
    int heads, kv_heads, q, kv, dim, head_dim_v;
    DType dtype;
  };
  for (const Case& k : {Case{2, 2, 384, 384, 128, 128, DType::bf16},
                        {4, 1, 257, 257, 64, 64, DType::bf16},
                        {5, 1, 130, 300, 96, 40, DType::f16},
                        {3, 3, 1, 77, 128, 64, DType::bf16},
                        {2, 1, 200, 300, 192, 128, DType::bf16},
                        {2, 2, 257, 257, 256, 256, DType::bf16},
                        {2, 1, 130, 140, 64, 256, DType::f16},
                        {7, 1, 200, 200, 16, 16, DType::bf16}})
    for (const bool causal : {false, true}) {
      BackwardCase c({.batch = 2,
                      .heads = k.heads,
                      .kv_heads = k.kv_heads,
                      .seqlen_q = k.q,
                      .seqlen_kv = k.kv,
                      .dim = k.dim,
                      .head_dim_v = k.head_dim_v},
                     Device::cuda(), k.dtype);
      SCOPED_TRACE(c.extents.str() + (causal ? "causal" : "full"));
      AttentionSpec spec;
      if (causal) {
        spec.mask = masks::causal(), spec.align_bottom_right = true;
        mask_by(c, [by = k.kv - k.q](int q, int kv) { return q + by >= kv; });
      }
      c.run(Attention(spec));
      expect_backward(c);
      if (HasFatalFailure()) return;
    }
}

TEST_P(AttentionBackward, MasksAndSinks) {
  struct Case {
    Mask mask;
    std::function<bool(int q, int kv)> host;
  };
  for (const Case& k :
       {Case{masks::window(50, 20), [](int q, int kv) { return q - kv <= 50 && kv - q <= 20; }},
        {masks::prefix_lm(40), [](int q, int kv) { return q >= kv || kv < 40; }},
        {masks::sink_window(4, 30),
         [](int q, int kv) { return q >= kv && (kv < 4 || q - kv <= 30); }}}) {
    BackwardCase c({.heads = 4,
                    .kv_heads = 2,
                    .seqlen_q = 700,
                    .seqlen_kv = 700,
                    .dim = 128,
                    .head_dim_v = 128},
                   Device::cuda());
    c.with_sinks();
    mask_by(c, k.host);
    c.run(Attention({.mask = k.mask}));
    expect_backward(c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionBackward, Scores) {
  BackwardCase c(
      {.heads = 4, .kv_heads = 2, .seqlen_q = 500, .seqlen_kv = 500, .dim = 128, .head_dim_v = 128},
      Device::cuda());
  mask_by(c, [](int q, int kv) { return q >= kv; });
  const Attention attention(
      {.mask = masks::causal(), .score = scores::compose(scores::softcap(2.0f), scores::alibi(4))});
  c.host.score = [](double s, int, int h, int q, int kv) {
    return 2 * std::tanh(s / 2) + std::exp2(-2.0 * (h + 1)) * (kv - q);
  };
  c.run(attention);
  expect_backward(c);
}

/// Lists that calls derive, evaluate or are given, of all heads of a group.
TEST_P(AttentionBackward, Lists) {
  const Mask mask = [](Tile, Tile h, Tile q, Tile kv) { return q >= kv && (kv / 64 + h) % 3 != 1; };
  for (const int dim : {128, 256})
    for (const bool is_given : {false, true}) {
      BackwardCase c({.heads = 4,
                      .kv_heads = 2,
                      .seqlen_q = 700,
                      .seqlen_kv = 700,
                      .dim = dim,
                      .head_dim_v = dim},
                     Device::cuda());
      c.host.mask = [](int, int h, int q, int kv) { return q >= kv && (kv / 64 + h) % 3 != 1; };
      const Attention attention({.mask = mask});
      if (is_given)
        c.blocks = attention.block_list(Stream(Device::cuda()), c.Q, c.K, BlockListRows::keys);
      c.run(attention);
      expect_backward(c);
      if (HasFatalFailure()) return;
    }
}

/// Packed sequences agree with dense calls, and rows that no sequence has are not written.
TEST_P(AttentionBackward, PackedSequences) {
  const Device device = Device::cuda();
  const Attention attention({.mask = masks::causal()});
  for (const auto& [kv_heads, dim] : {std::pair{4, 128}, {2, 64}, {1, 192}}) {
    PackedBackward c({{300, 0, 1, 70, 500}, {300, 5, 1, 129, 500}}, 4, kv_heads, dim, dim, device);
    c.with_sinks();
    c.run(attention);
    HostAttention host;
    host.mask = [](int, int, int q, int kv) { return q >= kv; };
    host.sink = [values = c.sinks.to_doubles()](int h) {
      return values[static_cast<std::size_t>(h)];
    };
    c.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// A full bias, whose gradient is stored, and a table by head and distance, to whose gradient pairs
/// are added.
TEST_P(AttentionBackward, Captures) {
  for (const int dim : {64, 128}) {
    constexpr int kHeads = 4, kLength = 300;
    BackwardCase c({.batch = 2,
                    .heads = kHeads,
                    .kv_heads = 2,
                    .seqlen_q = kLength,
                    .seqlen_kv = kLength,
                    .dim = dim,
                    .head_dim_v = dim},
                   Device::cuda());
    mask_by(c, [](int q, int kv) { return q >= kv; });
    const Dims pairs{2, kHeads, kLength, kLength}, distances{kLength, kHeads};
    const Tensor bias = Tensor::normal(pairs, DType::bf16, 0, 0.5, 11, Device::cuda()),
                 table = Tensor::normal(distances, DType::f32, 0, 0.5, 12, Device::cuda());
    const auto pair = [](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t kv) {
      return static_cast<std::size_t>(((b * kHeads + h) * kLength + q) * kLength + kv);
    };
    const auto entry = [](std::int64_t h, std::int64_t q, std::int64_t kv) {
      return static_cast<std::size_t>((q - kv) * kHeads + h);
    };
    c.host.score = [=, of_pair = bias.to_doubles(), of_distance = table.to_doubles()](
                       double s, int b, int h, int q, int kv) {
      return q < kv ? s : s + of_pair[pair(b, h, q, kv)] + of_distance[entry(h, q, kv)];
    };
    c.captured = {{bias, Tensor::full(pairs, NAN, DType::bf16, Device::cuda())},
                  {table, Tensor::full(distances, NAN, DType::f32, Device::cuda())}};
    const Score score = scores::compose(scores::bias(bias), scores::distance_bias(table, 0));
    c.run(Attention({.mask = masks::causal(), .score = score}));
    expect_backward(c);
    std::vector<double> of_pair(static_cast<std::size_t>(bias.numel())), size(of_pair.size()),
        of_entry(static_cast<std::size_t>(table.numel())), entry_size(of_entry.size());
    expected_gradients(c, [&](const auto& at, double, double dg, double dg_size) {
      const std::size_t p = pair(at[0], at[1], at[2], at[3]), e = entry(at[1], at[2], at[3]);
      of_pair[p] = dg, size[p] = dg_size, of_entry[e] += dg, entry_size[e] += dg_size;
    });
    const double unit = roundoff(DType::bf16);
    expect_gradient("bias", c.captured[0].into, of_pair, size, unit);
    expect_gradient("table", c.captured[1].into, of_entry, entry_size, unit);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionBackward, CapturesOfTheCatalogue) {
  for (const CapturedScore& of : captured_scores(2, 200, Device::cuda())) {
    BackwardCase c({.batch = 2,
                    .heads = 2,
                    .kv_heads = 1,
                    .seqlen_q = 200,
                    .seqlen_kv = 200,
                    .dim = 128,
                    .head_dim_v = 128},
                   Device::cuda());
    c.host = of.attention();
    c.captured = {of.captured};
    c.run(Attention({.mask = masks::causal(), .score = of.score}));
    expect_captured_score(c, of);
    if (HasFatalFailure()) return;
  }
}

/// dK and dV have equal bits in each run; those of dQ may differ, but not by much.
TEST_P(AttentionBackward, RepeatedRuns) {
  const BackwardCase c(
      {.batch = 2, .heads = 4, .seqlen_q = 1000, .seqlen_kv = 1000, .dim = 128, .head_dim_v = 128},
      Device::cuda());
  const Attention attention({.mask = masks::causal()});
  c.run(attention);
  const auto dK = c.dK.to_doubles(), dV = c.dV.to_doubles();
  for (int i = 0; i < 20; ++i) {
    c.run(attention);
    ASSERT_EQ(c.dK.to_doubles(), dK);
    ASSERT_EQ(c.dV.to_doubles(), dV);
  }
}

/// AttentionNumerics::deterministic: all gradients have equal bits in each run.
TEST_P(AttentionBackward, DeterministicRuns) {
  struct Case {
    int heads, kv_heads, length, dim, head_dim_v;
    bool is_causal;
  };
  for (const Case& k : {Case{4, 4, 1000, 128, 128, true},
                        {4, 1, 700, 128, 128, false},
                        {4, 2, 1000, 64, 64, true},
                        {2, 1, 300, 192, 128, true},
                        {2, 2, 300, 256, 256, true}}) {
    BackwardCase c({.batch = 2,
                    .heads = k.heads,
                    .kv_heads = k.kv_heads,
                    .seqlen_q = k.length,
                    .seqlen_kv = k.length,
                    .dim = k.dim,
                    .head_dim_v = k.head_dim_v},
                   Device::cuda());
    SCOPED_TRACE(c.extents.str());
    if (k.is_causal) mask_by(c, [](int q, int kv) { return q >= kv; });
    const Attention attention({.mask = k.is_causal ? masks::causal() : Mask()}, {},
                              {.deterministic = true});
    c.run(attention);
    expect_backward(c);
    if (HasFatalFailure()) return;
    const auto dQ = c.dQ.to_doubles(), dK = c.dK.to_doubles(), dV = c.dV.to_doubles();
    for (int i = 0; i < 20; ++i) {
      c.run(attention);
      ASSERT_EQ(c.dQ.to_doubles(), dQ);
      ASSERT_EQ(c.dK.to_doubles(), dK);
      ASSERT_EQ(c.dV.to_doubles(), dV);
    }
  }
}

TEST_P(AttentionBackward, DeterministicPackedSequences) {
  const PackedBackward c({{300, 0, 513, 64}, {300, 0, 513, 64}}, 4, 2, 128, 128, Device::cuda());
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  const Attention attention({.mask = masks::causal()}, {}, {.deterministic = true});
  c.run(attention);
  c.expect(host);
  if (HasFatalFailure()) return;
  const auto used = [&](const Tensor& t) {
    return t.slice(0, 0, c.packed.q_starts.back()).to_doubles();
  };
  const auto dQ = used(c.dQ);
  for (int i = 0; i < 20; ++i) {
    c.run(attention);
    ASSERT_EQ(used(c.dQ), dQ);
  }
}

}  // namespace
}  // namespace tegula::attention_backward_test
