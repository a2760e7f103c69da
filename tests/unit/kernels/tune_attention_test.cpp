// Attention through tune(calls), on the simulator: tiles, and splits of few rows' keys.
#include <gmock/gmock.h>

#include "autotune/calls/decision.h"
#include "kernels/attention/heuristics.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/tune.h"
#include "tests/unit/autotune/own_store.h"

namespace tegula::tune_attention_test {
using namespace kernels;
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct Call {
  Call(std::int64_t queries, std::int64_t keys)
      : Q(filled(queries, 1)), K(filled(keys, 2)), V(filled(keys, 3)), O(filled(queries, 4)) {}
  static Tensor filled(std::int64_t length, int seed) {
    return Tensor::integers({1, 1, length, 64}, DType::bf16, -2, 2, seed, Device::sim());
  }
  Stream stream{Device::sim()};
  Tensor Q, K, V, O;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

using TuneAttention = test::OwnStore;

TEST_F(TuneAttention, TilesThatKeepTheBitsAndOthers) {
  const Call c(64, 64);
  in_process([&] {
    const Attention causal({.mask = masks::causal()});
    causal(c.stream, c.Q, c.K, c.V, c.O);
    const std::vector<double> before = c.O.to_doubles();
    const auto call = [&] { causal(c.stream, c.Q, c.K, c.V, c.O); };
    const auto same = tune(call);
    EXPECT_EQ(same.size(), 1u);
    EXPECT_EQ(same[0].family, "attention_tiles");
    EXPECT_THAT(same[0].problem, HasSubstr("kv_extent=causal"));
    EXPECT_GT(same[0].candidates, 1);
    EXPECT_EQ(c.O.to_doubles(), before) << "no bit changes";
    TuneOptions options;
    options.may_change_bits = true;
    const auto any = tune(call, options);
    EXPECT_GT(any[0].candidates, same[0].candidates) << "kv blocks of other sizes";
    EXPECT_THAT(any[0].rejected, Not(Contains(HasSubstr("wrong"))));
    EXPECT_LT(largest_difference(c.O.to_doubles(), before), 0.05);
    return true;
  });
}

/// The split of the keys is decided first; the tile of each split is a separate decision.
TEST_F(TuneAttention, ADecodeHasTwoDecisions) {
  const Call c(1, 1024);
  in_process([&] {
    const Attention all({});
    TuneOptions options;
    options.may_change_bits = true;
    const auto tuned = tune([&] { all(c.stream, c.Q, c.K, c.V, c.O); }, options);
    EXPECT_GE(tuned.size(), 2u);
    EXPECT_EQ(tuned[0].family, "attention_split_kv");
    EXPECT_EQ(tuned[1].family, "attention_tiles");
    EXPECT_GT(tuned[0].candidates, 1);
    EXPECT_THAT(tuned[0].rejected, Not(Contains(HasSubstr("wrong"))));
    return true;
  });
}

/// A value that the caller gives is not decided.
TEST_F(TuneAttention, GivenTilesAreNotADecision) {
  const Call c(64, 64);
  in_process([&] {
    const Attention given({}, {.tiles = AttentionTileShape{64, 64}});
    EXPECT_TRUE(tune([&] { given(c.stream, c.Q, c.K, c.V, c.O); }).empty());
    return true;
  });
}

/// Attention's backward pass is a call like any other: its winner is stored, and a later process
/// uses it without measuring. The order of the additions to dQ is that of the simulator.
TEST_F(TuneAttention, TheBackwardPassKeepsItsWinner) {
  const Call c(128, 256);
  const Tensor lse = Tensor::empty({1, 1, 128}, DType::f32, Device::sim()),
               dO = Call::filled(128, 5), dQ = Call::filled(128, 6), dK = Call::filled(256, 7),
               dV = Call::filled(256, 8);
  const auto tuned = [&](const TuneOptions& options) {
    const Attention causal({.mask = masks::causal()});
    causal(c.stream, c.Q, c.K, c.V, c.O, {.lse = lse});
    const auto call = [&] {
      causal.backward(c.stream, c.Q, c.K, c.V, {.O = c.O, .lse = lse}, {.O = dO},
                      {.Q = dQ, .K = dK, .V = dV});
    };
    call();
    const std::vector<double> before_k = dK.to_doubles(), before_v = dV.to_doubles();
    const auto decisions = tune(call, options);
    EXPECT_EQ(decisions.size(), 1u);
    if (options.may_change_bits) {
      EXPECT_LT(largest_difference(dK.to_doubles(), before_k), 0.05);
    } else {
      EXPECT_EQ(dK.to_doubles(), before_k) << "no bit changes";
      EXPECT_EQ(dV.to_doubles(), before_v) << "no bit changes";
    }
    return decisions.at(0);
  };
  in_process([&] {
    const TunedDecision same = tuned({});
    EXPECT_EQ(same.family, "attention_backward");
    EXPECT_THAT(same.problem, HasSubstr("kv_extent=causal"));
    EXPECT_GT(same.candidates, 1);
    EXPECT_THAT(same.rejected, Not(Contains(HasSubstr("wrong"))));
    TuneOptions any;
    any.may_change_bits = true;
    const TunedDecision others = tuned(any);
    EXPECT_GT(others.candidates, 1);
    EXPECT_THAT(others.rejected, Not(Contains(HasSubstr("wrong"))));
    return true;
  });
  in_process([&] {
    const TunedDecision known = tuned({});
    EXPECT_TRUE(known.was_known);
    return true;
  });
}

}  // namespace
}  // namespace tegula::tune_attention_test
