// Softmax that is never rescaled: near enough where scores are alike, and computed again, exactly,
// where they are not.
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::softmax_fallback_test {
using namespace kernels;
namespace {

constexpr AttentionNumerics kNever{.rescaling = Rescaling::never};
/// Tiles of the second kernel.
constexpr AttentionTileShape kNarrow{128, 64};

class FallbackFlags : public testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
  static Stream stream() { return Stream(device()); }
  static Tensors random(const Extents& e, DType dtype = DType::bf16) {
    return {e, dtype, Order::bhsd, device()};
  }
  static std::vector<double> outputs(const AttentionSpec& spec, Rescaling rescaling,
                                     const Tensors& t,
                                     std::optional<AttentionTileShape> tiles = {}) {
    attention(spec, {.tiles = tiles}, {.rescaling = rescaling})(stream(), t.Q, t.K, t.V, t.O,
                                                                t.Lse);
    std::vector<double> all = t.O.contiguous().to_doubles();
    for (const double x : t.Lse.to_doubles()) all.push_back(x);
    return all;
  }
  /// Every tile is flagged for recomputation: the second pass gives the same as `exact` with as
  /// many keys per kv block, bit for bit.
  static void expect_all_again(const AttentionSpec& spec, const Tensors& t) {
    const auto never = outputs(spec, Rescaling::never, t);
    const auto exact = outputs(spec, Rescaling::exact, t, kNarrow);
    ASSERT_EQ(never.size(), exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i)
      ASSERT_TRUE(never[i] == exact[i] || (std::isnan(never[i]) && std::isnan(exact[i])))
          << i << ": " << never[i] << " and " << exact[i];
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, FallbackFlags, testing::ValuesIn(devices()), device_name);

/// Ragged and even lengths, a step and many; heads that share keys.
TEST_P(FallbackFlags, ScoresAlike) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int dim : {64, 128})
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << dim << (causal ? " causal" : ""));
        AttentionSpec spec;
        HostAttention host;
        if (causal) {
          spec.mask = masks::causal();
          host.mask = [](int, int, int q, int kv) { return q >= kv; };
        }
        const Attention attention(spec, {}, kNever);
        for (const auto& [q, kv] : {std::pair{300, 1000}, {129, 40}, {200, 257}}) {
          const Tensors t = random(
              {.heads = 2, .seqlen_q = q, .seqlen_kv = kv, .dim = dim, .head_dim_v = dim}, dtype);
          attention(stream(), t.Q, t.K, t.V, t.O, t.Lse);
          expect_attention(host, t);
          if (HasFatalFailure()) return;
        }
      }
}

/// Scores of head 0 stay; those of others rise or fall by up to 2^100 between first and last keys.
TEST_P(FallbackFlags, ScoresApart) {
  AttentionSpec spec{.mask = masks::causal()};
  spec.score = [](Tile s, Tile, Tile h, Tile, Tile kv) {
    return s + cast<f32>(kv * h) * where(h == 2, -0.1f, 0.1f);
  };
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  host.score = [](double s, int, int h, int, int kv) { return s + kv * h * (h == 2 ? -0.1 : 0.1); };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensors t = random({.heads = 4, .seqlen_q = 700, .seqlen_kv = 700}, dtype);
    const Attention attention(spec, {}, kNever);
    for (int call = 0; call < 2; ++call) {
      attention(stream(), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(host, t);
      if (HasFatalFailure()) return;
    }
  }
}

/// Scores that fall with the distance from the query, by far more than floats hold: blocks next to
/// it come first, and nothing is computed again.
TEST_P(FallbackFlags, NearestFirst) {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  host.score = [](double s, int, int, int q, int kv) { return s + (kv - q); };
  AttentionSpec spec{.mask = masks::causal(), .score = scores::relative_bias(-1.0f)};
  for (const bool is_window : {false, true}) {
    if (is_window) {
      spec.mask = masks::sliding_window(130);
      host.mask = [](int, int, int q, int kv) { return q >= kv && q - kv <= 130; };
    }
    for (const auto& [q, kv] : {std::pair{700, 700}, {129, 40}, {300, 1000}}) {
      const Tensors t = random({.seqlen_q = q, .seqlen_kv = kv});
      const auto exact = outputs(spec, Rescaling::exact, t, kNarrow);
      // The sums of a single step are the same.
      EXPECT_EQ(outputs(spec, Rescaling::never, t, kNarrow) != exact, kv > 64);
      expect_attention(host, t);
      if (HasFatalFailure()) return;
    }
  }
}

/// Scores that rise with it: blocks come in order, and nothing is computed again either.
TEST_P(FallbackFlags, FarthestFirst) {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  host.score = [](double s, int, int, int q, int kv) { return s + 0.1 * (q - kv); };
  const AttentionSpec spec{.mask = masks::causal(), .score = scores::relative_bias(0.1f)};
  const Tensors t = random({.seqlen_q = 700, .seqlen_kv = 700});
  const auto again = outputs(spec, Rescaling::exact, t, kNarrow);
  constexpr AttentionTileShape kWide{128, 128};
  const auto never = outputs(spec, Rescaling::never, t, kWide);
  expect_attention(host, t);
  EXPECT_EQ(never, outputs(spec, Rescaling::exact, t, kWide)) << "the first block has all maxima";
  EXPECT_NE(never, again);
}

/// Rows that see nothing of the first block, and scores far from 0; rows without any key.
TEST_P(FallbackFlags, RowsThatBeginLater) {
  AttentionSpec spec;
  spec.mask = [](Tile, Tile, Tile q, Tile kv) { return kv <= q - 10 && (q % 2 == 0 || kv >= 150); };
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return kv <= q - 10 && (q % 2 == 0 || kv >= 150); };
  for (const float offset : {0.0f, -150.0f, 150.0f}) {
    spec.score = [=](Tile s, Tile, Tile, Tile, Tile) { return s + offset; };
    host.score = [=](double s, int, int, int, int) { return s + offset; };
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(testing::Message() << name(dtype) << " " << offset);
      const Tensors t = random({.seqlen_q = 400, .seqlen_kv = 400}, dtype);
      attention(spec, {}, kNever)(stream(), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(host, t);
      if (HasFatalFailure()) return;
    }
  }
}

/// NaNs, infinities and values near them come out as they do from exact rescaling.
TEST_P(FallbackFlags, ExtremeNumbers) {
  const AttentionSpec plain;
  AttentionSpec rising;  // by 2^30: row sums that cannot be wrong, of MMAs that overflow
  rising.score = [](Tile s, Tile, Tile, Tile, Tile kv) { return s - cast<f32>(kv) * 0.05f; };
  const Extents e{.seqlen_q = 130, .seqlen_kv = 420};
  for (const float value : {INFINITY, NAN, 3e38f}) {
    SCOPED_TRACE(value);
    Tensors t = random(e);
    t.V = Tensor::full({1, 1, 420, 64}, value, DType::bf16, device());
    expect_all_again(rising, t);
    if (std::isinf(value) || std::isnan(value)) {
      expect_all_again(plain, t);
      t = random(e);
      t.K = Tensor::full({1, 1, 420, 64}, value, DType::bf16, device());
      expect_all_again(plain, t);
    }
    if (HasFatalFailure()) return;
  }
}

/// Blocks are visited from the last one where scores look at positions: the largest is seen last,
/// and all is computed again.
TEST_P(FallbackFlags, AllAgain) {
  AttentionSpec spec;
  spec.score = [](Tile s, Tile, Tile, Tile, Tile kv) { return s - cast<f32>(kv); };
  for (const DType dtype : {DType::bf16, DType::f16})
    expect_all_again(spec,
                     random({.batch = 2, .heads = 3, .seqlen_q = 333, .seqlen_kv = 500}, dtype));
}

/// One flagged tile of many: the others' results stay as they are.
TEST_P(FallbackFlags, OneAgain) {
  constexpr int kHeads = 70, kRows = 64, kDim = 64;
  AttentionSpec spec;
  spec.score = [](Tile s, Tile, Tile h, Tile, Tile kv) {
    return s - where(h == 1, cast<f32>(kv), 0.0f);
  };
  const Tensors t =
      random({.heads = kHeads, .kv_heads = kHeads, .seqlen_q = kRows, .seqlen_kv = 200});
  constexpr AttentionTileShape kTiles{64, 64};
  const auto never = outputs(spec, Rescaling::never, t, kTiles),
             exact = outputs(spec, Rescaling::exact, t, kTiles);
  for (int h = 0; h < kHeads; ++h) {
    const auto begin = kHeads * kRows * kDim + h * kRows, end = begin + kRows;
    EXPECT_EQ(std::equal(never.begin() + begin, never.begin() + end, exact.begin() + begin), h == 1)
        << h;
  }
}

}  // namespace
}  // namespace tegula::test::softmax_fallback_test
