// Scores of distances, computed once per diagonal of a tile: to the bit what each pair computes by
// itself, and right by double precision.
#include <algorithm>

#include "tegula/attention_tiles.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/math.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::toeplitz_test {
using namespace kernels;
namespace {

class ScoresOfDistance : public testing::TestWithParam<Device> {
 protected:
  static std::vector<double> outputs(const Tensors& t) {
    std::vector<double> all = t.O.to_doubles(), lse = t.Lse.to_doubles();
    all.insert(all.end(), lse.begin(), lse.end());
    return all;
  }

  /// `once`: whether tiles have diagonals to compute the score by.
  static void check(AttentionSpec spec, const Extents& e, bool once = true,
                    const HostAttention* host = nullptr, AttentionSchedule schedule = {}) {
    SCOPED_TRACE(e.str());
    const Score score = spec.score;
    const auto dim = static_cast<int>(e.dim);
    if (!schedule.tiles) schedule.tiles = attention_tiles({dim, dim, ScoreFunction(score).cost()});
    const Scalar<i32> zero(0);
    std::vector<double> before;
    for (const bool hidden : {true, false}) {
      if (hidden)  // no one can tell that it is a position
        spec.score = [=](Tile s, Tile b, Tile h, Tile q, Tile kv) {
          return score(s, b, h, q ^ zero.value(), kv);
        };
      else
        spec.score = score;
      const Attention attention(spec, schedule);
      const Tensors t(e, DType::bf16, Order::bhsd, GetParam());
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
      if (host) expect_attention(*host, t);
      if (HasFatalFailure()) return;
      if (!hidden) {
        ASSERT_EQ(outputs(t), before);
      }
      before = outputs(t);
      if (GetParam().kind == DeviceKind::cpu) continue;  // compiles nothing
      const std::string said = attention.explain(DType::bf16);
      EXPECT_EQ(said.find("computed once per diagonal") != std::string::npos, once && !hidden)
          << said;
    }
  }

  static Tile far_is_little(Tile s, Tile, Tile h, Tile q, Tile kv) {
    return s - log(1.0f + cast<f32>(abs(kv - q)) * exp2(cast<f32>(h) * -0.5f));
  }
  /// Its distances are sums of columns and rows, each converted.
  static Tile far_is_little_in_floats(Tile s, Tile, Tile h, Tile q, Tile kv) {
    return s - log(1.0f + abs(cast<f32>(kv - q)) * exp2(cast<f32>(h) * -0.5f));
  }

  static std::vector<Score> scores_of_distance() {
    const Tensor buckets = Tensor::normal({32, 4}, DType::f32, 0, 1, 5, GetParam()),
                 table = Tensor::normal({600, 4}, DType::f32, 0, 1, 6, GetParam());
    return {scores::t5_bias(buckets, 100, true), scores::t5_bias(buckets, 100, false),
            scores::distance_bias(table, 300), scores::distance_bias(table, 261),
            [](Tile s, Tile, Tile h, Tile q, Tile kv) {
              const Tile steps = cast<f32>(abs(kv - q)) * exp2(cast<f32>(h) * -0.5f);
              return s - log(1.0f + steps);
            }};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ScoresOfDistance, testing::ValuesIn(devices()), device_name);

constexpr Extents kOdd{2, 4, 2, 70, 133, 32, 32};

TEST_P(ScoresOfDistance, UnderMasks) {
  for (const Score& score : scores_of_distance())
    for (const Mask& mask : {Mask(), masks::causal(), masks::sliding_window(Scalar<i32>(20))}) {
      check({.mask = mask, .score = score}, kOdd);
      if (HasFatalFailure()) return;
    }
}

TEST_P(ScoresOfDistance, OtherTiles) {
  for (const Score& score : scores_of_distance())
    for (const AttentionTileShape& tiles :
         {AttentionTileShape{64, 32}, AttentionTileShape{128, 96}, AttentionTileShape{192, 64}}) {
      check({.mask = masks::causal(), .score = score}, {1, 4, 4, 259, 261, 64, 64}, true, nullptr,
            {.tiles = tiles});
      if (HasFatalFailure()) return;
    }
}

/// Without shared memory left by the rings, lanes exchange by shuffles.
TEST_P(ScoresOfDistance, WithoutRoom) {
  for (const Score& score : {Score(far_is_little), Score(far_is_little_in_floats)}) {
    const AttentionSpec spec{.mask = masks::causal(), .score = score};
    const AttentionSchedule schedule{.tiles = AttentionTileShape{128, 128}};
    check(spec, {1, 2, 1, 130, 261, 128, 128}, true, nullptr, schedule);
    if (HasFatalFailure() || GetParam().kind == DeviceKind::cpu) return;
    const Attention attention(spec, schedule);
    const Tensors t({1, 1, 1, 1, 1, 128, 128}, DType::bf16, Order::bhsd, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    EXPECT_NE(attention.explain(DType::bf16).find("exchanged by=shuffles"), std::string::npos);
  }
}

/// Query positions begin at any number; the host computes the expected result.
TEST_P(ScoresOfDistance, QueriesAtTheEnd) {
  const Tensor table = Tensor::normal({200, 4}, DType::f32, 0, 1, 6, GetParam());
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q + 133 - 70 >= kv; };
  host.score = [values = table.to_doubles()](double s, int, int h, int q, int kv) {
    const int at = std::max(0, q + 133 - 70 - kv + 30);  // less only where nothing is seen
    return s + values[static_cast<std::size_t>(at * 4 + h)];
  };
  check({.mask = masks::causal(),
         .score = scores::distance_bias(table, 30),
         .align_bottom_right = true},
        kOdd, true, &host);
}

/// Rows of several heads are not consecutive positions.
TEST_P(ScoresOfDistance, PackedHeadsKeepTheirElements) {
  for (const Score& score : scores_of_distance())
    check({.score = score}, {2, 4, 2, 3, 133, 32, 32}, false, nullptr, {.pack_gqa = true});
}

}  // namespace
}  // namespace tegula::test::toeplitz_test
