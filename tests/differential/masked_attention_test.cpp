// Attention under every mask of the library: values against a loop over all pairs, the way it takes
// through the keys, and what it compiles.
#include "support/env.h"
#include "tests/differential/attention_expected.h"
#include "tests/property/mask_catalogue.h"

namespace tegula::masked_attention_test {
using namespace kernels;
namespace {

using catalogue::Case;
using test::AttentionInputs;

class MaskedAttention : public ::testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
  static Tensor integers(const std::vector<i32>& values) { return Tensor::from(values, device()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, MaskedAttention, ::testing::ValuesIn(test::devices()),
                         test::device_name);

/// exp(scores) of every pair, so that many masks share them.
class Weights {
 public:
  explicit Weights(const AttentionInputs& in) : in_(in), v_(in.V.to_doubles()) {
    const auto q = in.Q.to_doubles(), k = in.K.to_doubles();
    for (std::int64_t i = 0; i < in.queries; ++i)
      for (std::int64_t j = 0; j < in.keys; ++j) {
        double s = 0;
        for (std::int64_t d = 0; d < in.dim; ++d)
          s += q[at(i * in.dim + d)] * k[at(j * in.dim + d)];
        weights_.push_back(std::exp(s / std::sqrt(static_cast<double>(in.dim))));
      }
  }
  std::vector<double> expected(const Case& c) const {
    std::vector<double> out(at(in_.queries * in_.dim));
    for (std::int64_t i = 0; i < in_.queries; ++i) {
      double sum = 0;
      std::vector<double> row(at(in_.dim));
      for (std::int64_t j = 0; j < in_.keys; ++j) {
        if (!c.want(static_cast<int>(i), static_cast<int>(j))) continue;
        const double w = weights_[at(i * in_.keys + j)];
        sum += w;
        for (std::int64_t d = 0; d < in_.dim; ++d) row[at(d)] += w * v_[at(j * in_.dim + d)];
      }
      for (std::int64_t d = 0; d < in_.dim && sum > 0; ++d)
        out[at(i * in_.dim + d)] = row[at(d)] / sum;
    }
    return out;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  const AttentionInputs& in_;
  std::vector<double> v_, weights_;
};

TEST_P(MaskedAttention, AgreesWithAllPairs) {
  // Ragged in both directions: the last tiles reach past the ends.
  const AttentionInputs in({1, 1}, 1, 700, 650, 64, device());
  const Weights weights(in);
  for (const Case& c : catalogue::cases(device())) {
    SCOPED_TRACE(c.name);
    const Attention a = attention({.mask = c.mask});
    test::expect_near(in.run(a), weights.expected(c));
    const std::string text = a.explain();
    EXPECT_NE(text.find(std::string("class ") + c.mask_class + ":"), std::string::npos) << text;
    if (device().kind != DeviceKind::cpu) {
      EXPECT_NE(text.find("overlapped=1"), std::string::npos) << text;
      EXPECT_NE(text.find("threads 384"), std::string::npos) << text;
    }
  }
}

/// Without wgmma (as on older GPUs), without a producer warp, one program a tile.
TEST_P(MaskedAttention, OnEveryPath) {
  if (device().kind == DeviceKind::cpu) return;
  struct Path {
    const char* plan;
    bool is_wgmma;
    std::int64_t
        dim;  // a dim of its own: a process compiles a kernel once, whatever the plan is then
  };
  for (const Path& path :
       {Path{"wgmma=0 producer_warps=0 persistent=0 consumer_registers=0 stages=2 stage_stores=1",
             false, 32},
        Path{"producer_warps=0 consumer_registers=0", true, 96}, Path{"persistent=0", true, 112}}) {
    SCOPED_TRACE(path.plan);
    const AttentionInputs in({1, 1}, 1, 300, 410, path.dim, device());
    const Weights weights(in);
    Env other = env();
    other.plan = path.plan;
    const EnvOverride scope(other);
    const auto cases = catalogue::cases(device());
    for (std::size_t i = 0; i < cases.size(); i += 3) {  // some of every class
      const Case& c = cases[i];
      SCOPED_TRACE(c.name);
      const Attention a = attention({.mask = c.mask});
      test::expect_near(in.run(a), weights.expected(c));
      const bool is_wgmma = a.explain().find("dot by wgmma") != std::string::npos;
      EXPECT_EQ(is_wgmma, path.is_wgmma) << a.explain();
    }
  }
}

TEST_P(MaskedAttention, BatchesAndGroups) {
  const AttentionInputs in({3, 4}, 2, 200, 330, 64, device());
  const std::vector<i32> lengths{330, 0, 201}, padding{7, 130, 329};
  const Attention padded = attention({.mask = masks::key_padding(integers(lengths))});
  test::expect_near(in.run(padded), in.expected([&](auto b, auto, auto, auto kv) {
    return kv < lengths[static_cast<std::size_t>(b)];
  }));
  const auto left = masks::and_(masks::left_padding(integers(padding)), masks::causal());
  test::expect_near(in.run(attention({.mask = left})),
                    in.expected([&](auto b, auto, auto q, auto kv) {
                      return q >= kv && kv >= padding[static_cast<std::size_t>(b)];
                    }));
  // Heads with separate windows.
  const Tensor windows = integers({3, 40, 0, 500});
  const auto of_heads = [windows](const Tile&, const Tile& h, const Tile& q, const Tile& kv) {
    return q >= kv && q - kv <= view<i32, 1>(windows)(h);
  };
  const std::vector<int> width{3, 40, 0, 500};
  test::expect_near(in.run(attention({.mask = of_heads})),
                    in.expected([&](auto, auto h, auto q, auto kv) {
                      return q >= kv && q - kv <= width[static_cast<std::size_t>(h)];
                    }));
}

TEST_P(MaskedAttention, NewTablesLengthsAndNumbersCompileNothing) {
  Scalar<i32> window = 100;
  const Tensor ids = Tensor::zeros({600}, DType::i32, device());
  const auto mask = masks::and_(masks::document(ids), masks::sliding_window(window));
  const Attention a = attention({.mask = mask});
  const auto run = [&](std::int64_t queries, std::int64_t keys, int length, int w) {
    std::vector<i32> of;
    for (int i = 0; i < 600; ++i) of.push_back(i / length);
    ids.copy_from(integers(of));
    window = w;
    const AttentionInputs in({1, 1}, 1, queries, keys, 64, device());
    test::expect_near(in.run(a), in.expected([&](auto, auto, auto q, auto kv) {
      return q >= kv && q - kv <= w && q / length == kv / length;
    }));
  };
  run(304, 304, 70, 100);
  const auto compiled = [&] {
    std::string reasons;
    const std::string text = a.explain();
    for (std::size_t at = text.find("compiled: "); at != std::string::npos;
         at = text.find("compiled: ", at + 1))
      reasons += text.substr(at, text.find('\n', at) - at) + ";";
    return reasons;
  };
  EXPECT_EQ(compiled(), "compiled: first call;compiled: first call;compiled: first call;");
  run(304, 304, 150, 20);
  run(512, 576, 33, 1000);
  run(80, 592, 600, 3);
  // Whatever divides them.
  run(305, 307, 40, 100);
  run(132, 132, 33, 1000);
  run(3, 140, 33, 10);
  EXPECT_EQ(compiled(), "compiled: first call;compiled: first call;compiled: first call;");
}

TEST_P(MaskedAttention, RowsWithoutKeysAreZero) {
  const AttentionInputs in({1, 1}, 1, 150, 130, 64, device());
  const Attention a = attention({.mask = masks::key_padding(integers({0}))});
  const Tensor O = Tensor::empty(in.Q.shape(), DType::bf16, device()),
               lse = Tensor::empty({1, 1, 150}, DType::f32, device());
  a(Stream(device()), in.Q, in.K, in.V, O, lse);
  for (const double x : O.to_doubles()) ASSERT_EQ(x, 0);
  for (const double x : lse.to_doubles()) ASSERT_EQ(x, -HUGE_VAL);
}

}  // namespace
}  // namespace tegula::masked_attention_test
