// Attention's gradients under score functions, which are differentiated, against central
// differences in double precision.
#include "tests/differential/attention/backward_reference.h"

#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"

namespace tegula::test::backward_scores_test {
using namespace kernels;
namespace {

using HostScore = std::function<double(double s, int b, int h, int q, int kv)>;

class BackwardScores : public testing::TestWithParam<Device> {
 protected:
  static void check(AttentionSpec spec, const HostScore& score, const Extents& e) {
    BackwardCase c(e, GetParam());
    spec.mask = masks::causal();
    c.host.mask = [](int, int, int q, int kv) { return q >= kv; };
    c.host.score = score;
    c.is_softmax = spec.weighting == AttentionNormalization::softmax;
    check_backward(spec, c);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, BackwardScores, testing::ValuesIn(devices()), device_name);

TEST_P(BackwardScores, Softmax) {
  struct Case {
    const char* name;
    Score device;
    HostScore host;
  };
  const Scalar<f32> temperature = 0.5f;
  for (const Case& k : {
           Case{"alibi", scores::alibi(3),
                [](double s, int, int h, int q, int kv) {
                  return s + std::exp2(-8.0 * (h + 1) / 3) * (kv - q);
                }},
           {"softcap", scores::softcap(2.0f),
            [](double s, int, int, int, int) { return 2 * std::tanh(s / 2); }},
           {"temperature",
            [=](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
              return s * temperature;
            },
            [](double s, int, int, int, int) { return 0.5 * s; }},
           {"by position",
            [](const Tile& s, const Tile&, const Tile& h, const Tile& q, const Tile& kv) {
              return where(q == kv, s * s, sin(s) + cast<f32>(h));
            },
            [](double s, int, int h, int q, int kv) { return q == kv ? s * s : std::sin(s) + h; }},
           {"constant",
            [](const Tile&, const Tile&, const Tile&, const Tile& q, const Tile& kv) {
              return cast<f32>(kv - q) * 0.01f;
            },
            [](double, int, int, int q, int kv) { return (kv - q) * 0.01; }},
       }) {
    SCOPED_TRACE(k.name);
    check({.score = k.device}, k.host,
          {.heads = 3, .kv_heads = 1, .seqlen_q = 150, .seqlen_kv = 150});
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardScores, WeightsThatAreScores) {
  AttentionSpec spec{.score = [](const Tile& s, const Tile&, const Tile&, const Tile&,
                                 const Tile&) { return sigmoid(s - 2.0f); },
                     .weighting = AttentionNormalization::none};
  check(spec, [](double s, int, int, int, int) { return 1 / (1 + std::exp(2 - s)); },
        {.heads = 2, .seqlen_q = 130, .seqlen_kv = 130});
  spec.score = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
    return max(s, 0.0f) * max(s, 0.0f);
  };
  check(spec, [](double s, int, int, int, int) { return s > 0 ? s * s : 0; },
        {.heads = 2, .seqlen_q = 130, .seqlen_kv = 130});
  spec.score = {};
  check(spec, [](double s, int, int, int, int) { return s; }, {.seqlen_q = 70, .seqlen_kv = 70});
}

TEST_P(BackwardScores, ScoreWithoutDerivative) {
  const BackwardCase c({.seqlen_q = 20, .seqlen_kv = 20}, GetParam());
  const Attention attention(
      {.score = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
        return bitcast<f32>(bitcast<i32>(s) + 1);
      }});
  try {
    c.run(attention);
    ADD_FAILURE() << "no error";
  } catch (const CompileError& e) {
    EXPECT_NE(std::string(e.what()).find("T1022"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("backward_scores_test.cpp"), std::string::npos);
  }
}

}  // namespace
}  // namespace tegula::test::backward_scores_test
