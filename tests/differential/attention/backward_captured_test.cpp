// Gradients of the tensors and Scalars that a score captures, against double precision.
#include "tests/differential/attention/captured_scores.h"
#include "tests/differential/attention/packed_backward.h"

#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"

namespace tegula::test::backward_captured_test {
using namespace kernels;
namespace {

using Pair = std::array<std::int64_t, 4>;  ///< b, h, q, kv
/// Adds a slope: the derivative of the pair's score in an element.
using AddSlope = std::function<void(std::int64_t element, double slope)>;
using Slopes = std::function<void(const Pair& at, double s, const AddSlope& add)>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

class BackwardCaptured : public testing::TestWithParam<Device> {
 protected:
  Tensor random(const Dims& shape, DType dtype = DType::f32, std::uint64_t seed = 11) const {
    return Tensor::normal(shape, dtype, 0, 0.5, seed, GetParam());
  }
  Tensor output(const Dims& shape, DType dtype = DType::f32) const {
    return Tensor::full(shape, NAN, dtype, GetParam());
  }

  /// Checks the gradients of Q, K and V, and those of captures against the slopes of each.
  static void check(const AttentionSpec& spec, BackwardCase& c, const std::vector<Slopes>& slopes) {
    SCOPED_TRACE(c.extents.str());
    c.is_softmax = spec.weighting == AttentionNormalization::softmax;
    c.run(Attention(spec));
    expect_backward(c);
    expect_captured(c, slopes);
  }
  static void expect_captured(const BackwardCase& c, const std::vector<Slopes>& slopes) {
    std::vector<std::vector<double>> want, size;
    for (const CapturedGradient& g : c.captured)
      want.emplace_back(index(g.into.numel())), size.emplace_back(index(g.into.numel()));
    expected_gradients(c, [&](const Pair& at, double s, double dg, double dg_size) {
      for (std::size_t i = 0; i < slopes.size(); ++i)
        slopes[i](at, s, [&](std::int64_t element, double slope) {
          want[i][index(element)] += dg * slope;
          size[i][index(element)] += dg_size * std::abs(slope);
        });
    });
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      const auto& g = c.captured[i].into;
      const auto name = "captured " + std::to_string(i);
      expect_gradient(name.c_str(), g, want[i], size[i], roundoff(c.Q.dtype()));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, BackwardCaptured, testing::ValuesIn(devices()), device_name);

/// Returns slopes of 1 in the element of a row-major tensor that a pair reads.
Slopes one_at(const std::function<std::int64_t(const Pair&)>& element) {
  return [=](const Pair& at, double, const AddSlope& add) { add(element(at), 1); };
}

/// Returns slopes of the scaled product there.
Slopes times_s(const std::function<std::int64_t(const Pair&)>& element) {
  return [=](const Pair& at, double s, const AddSlope& add) { add(element(at), s); };
}

// ---- an element for each pair
TEST_P(BackwardCaptured, FullBias) {
  struct Case {
    std::int64_t batch, heads, kv_heads, q, kv;
    DType bias, into, dtype;
    bool is_causal;
  };
  using enum DType;
  for (const Case& k : {Case{1, 2, 1, 70, 150, bf16, bf16, bf16, false},
                        {2, 4, 1, 130, 130, f32, f32, bf16, true},
                        {1, 1, 1, 33, 70, f16, f16, f16, true},
                        {1, 1, 1, 33, 70, f16, f16, bf16, true},
                        {2, 1, 1, 64, 128, bf16, f32, bf16, false}}) {
    BackwardCase c({.batch = k.batch,
                    .heads = k.heads,
                    .kv_heads = k.kv_heads,
                    .seqlen_q = k.q,
                    .seqlen_kv = k.kv},
                   GetParam(), k.dtype);
    const Dims shape{k.batch, k.heads, k.q, k.kv};
    const Tensor bias = random(shape, k.bias);
    const auto element = [shape](const Pair& at) {
      return ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * shape[3] + at[3];
    };
    c.host.score = [=, values = bias.to_doubles()](double s, int b, int h, int q, int kv) {
      return s + values[index(element({b, h, q, kv}))];
    };
    AttentionSpec spec{.score = scores::bias(bias)};
    if (k.is_causal) {
      spec.mask = masks::causal();
      c.host.mask = [](int, int, int q, int kv) { return q >= kv; };
    }
    c.captured = {{bias, output(shape, k.into)}};
    check(spec, c, {one_at(element)});
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardCaptured, TransposedBiasAtTheEnd) {
  BackwardCase c({.heads = 2, .seqlen_q = 30, .seqlen_kv = 130}, GetParam());
  const Dims shape{130, 130, 1, 2};  // kv, q, b, h
  Tensor bias = random(shape), gradient = output(shape);
  const auto element = [](const Pair& at) { return (at[3] * 130 + at[2] + 100) * 2 + at[1]; };
  c.host.mask = [](int, int, int q, int kv) { return q + 100 >= kv; };
  c.host.score = [=, values = bias.to_doubles()](double s, int b, int h, int q, int kv) {
    return s * (1 + values[index(element({b, h, q, kv}))]);
  };
  c.captured = {{bias, gradient}};
  const auto score = [&bias](const Tile& s, const Tile& b, const Tile& h, const Tile& q,
                             const Tile& kv) {
    return s * (1.0f + view<f32, 4>(bias)(kv, q, b, h));
  };
  check({.mask = masks::causal(), .score = score, .align_bottom_right = true}, c,
        {times_s(element)});
}

/// Blocks that no list names are cleared.
TEST_P(BackwardCaptured, BiasUnderAMaskWithLists) {
  constexpr int kLength = 200;
  BackwardCase c({.heads = 2, .kv_heads = 1, .seqlen_q = kLength, .seqlen_kv = kLength},
                 GetParam());
  std::vector<i32> ids(kLength);
  for (std::size_t i = 0; i < kLength; ++i) ids[i] = i < 90 ? 0 : 1;
  c.host.mask = [=](int, int, int q, int kv) { return q >= kv && ids[index(q)] == ids[index(kv)]; };
  const Dims shape{1, 2, kLength, kLength};
  const Tensor bias = random(shape), by_head = random({2}),
               of_position = Tensor::from(ids, Dims{kLength}, GetParam()),
               first = Tensor::from(std::vector<i32>{0, 90}, Dims{2}, GetParam());
  const auto element = [](const Pair& at) { return (at[1] * kLength + at[2]) * kLength + at[3]; };
  c.host.score = [=, values = bias.to_doubles(), heads = by_head.to_doubles()](
                     double s, int b, int h, int q, int kv) {
    return s * heads[index(h)] + values[index(element({b, h, q, kv}))];
  };
  c.captured = {{bias, output(shape)}, {by_head, output({2})}};
  check({.mask = masks::packed_causal(of_position, first),
         .score = scores::compose(scores::head_temperature(by_head), scores::bias(bias))},
        c, {one_at(element), times_s([](const Pair& at) { return at[1]; })});
}

/// Head dims for which there are two launches.
TEST_P(BackwardCaptured, WideHeads) {
  BackwardCase c({.heads = 2, .seqlen_q = 40, .seqlen_kv = 130, .dim = 192, .head_dim_v = 128},
                 GetParam());
  const Dims shape{1, 2, 40, 130};
  const Tensor bias = random(shape, DType::bf16), by_head = random({2});
  const auto element = [](const Pair& at) { return (at[1] * 40 + at[2]) * 130 + at[3]; };
  c.host.score = [=, values = bias.to_doubles(), heads = by_head.to_doubles()](
                     double s, int b, int h, int q, int kv) {
    return s * heads[index(h)] + values[index(element({b, h, q, kv}))];
  };
  c.captured = {{bias, output(shape)}, {by_head, output({2})}};
  check({.score = scores::compose(scores::head_temperature(by_head), scores::bias(bias))}, c,
        {one_at(element), times_s([](const Pair& at) { return at[1]; })});
}

/// Packed sequences get what each gets by itself; the bias has an entry for each sequence.
TEST_P(BackwardCaptured, PackedSequences) {
  const Lengths lengths{{70, 0, 5}, {70, 0, 140}};
  PackedBackward c(lengths, 2, 1, 64, 64, GetParam());
  const Tensor bias = random({3, 2, 140, 140}), by_head = random({2});
  const Tensor of_bias = output(bias.shape()), of_head = output({2});
  c.captured = {{bias, of_bias}, {by_head, of_head}};
  const auto spec_of = [&](const Tensor& b) {
    const Score score = scores::compose(scores::head_temperature(by_head), scores::bias(b));
    return AttentionSpec{.mask = masks::causal(), .score = score, .align_bottom_right = true};
  };
  c.run(Attention(spec_of(bias)));
  std::vector<double> sums(2);
  for (std::size_t s = 0; s < 3; ++s) {
    const i32 q = c.packed.q_starts[s], q_end = c.packed.q_starts[s + 1],
              kv = c.packed.kv_starts[s], kv_end = c.packed.kv_starts[s + 1];
    const auto entry = static_cast<std::int64_t>(s);
    const Tensor own = bias.slice(0, entry, entry + 1);
    BackwardCase alone({.heads = 2, .kv_heads = 1, .seqlen_q = q_end - q, .seqlen_kv = kv_end - kv},
                       GetParam());
    const Tensors& t = c.packed.all;
    alone.Q = dense_rows(t.Q, q, q_end), alone.dO = dense_rows(c.dO, q, q_end);
    alone.K = dense_rows(t.K, kv, kv_end), alone.V = dense_rows(t.V, kv, kv_end);
    alone.captured = {{own, output(own.shape())}, {by_head, output({2})}};
    alone.run(Attention(spec_of(own)));
    const auto want = alone.captured[0].into.to_doubles(),
               got = of_bias.slice(0, entry, entry + 1).contiguous().to_doubles(),
               heads = alone.captured[1].into.to_doubles();
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-3) << s << " " << i;
    for (std::size_t h = 0; h < 2; ++h) sums[h] += heads[h];
  }
  for (std::size_t h = 0; h < 2; ++h) EXPECT_NEAR(of_head.to_doubles()[h], sums[h], 0.02);
}

// ---- elements that pairs share
TEST_P(BackwardCaptured, BroadcastBias) {
  for (const Dims& shape : {Dims{1, 1, 70, 130}, {2, 1, 70, 130}, {1, 2, 1, 130}}) {
    BackwardCase c({.batch = 2, .heads = 2, .kv_heads = 1, .seqlen_q = 70, .seqlen_kv = 130},
                   GetParam());
    const Tensor bias = random(shape, DType::bf16);
    const auto element = [shape](const Pair& at) {
      std::int64_t i = 0;
      for (std::size_t d = 0; d < 4; ++d) i = i * shape[d] + (shape[d] == 1 ? 0 : at[d]);
      return i;
    };
    c.host.mask = [](int, int, int q, int kv) { return q - kv <= 30 && kv - q <= 20; };
    c.host.score = [=, values = bias.to_doubles()](double s, int b, int h, int q, int kv) {
      return s + values[index(element({b, h, q, kv}))];
    };
    c.captured = {{bias, output(shape, DType::bf16)}};
    check({.mask = masks::window(30, 20), .score = scores::bias(bias)}, c, {one_at(element)});
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardCaptured, HeadsAndScalars) {
  BackwardCase c({.batch = 2, .heads = 4, .kv_heads = 1, .seqlen_q = 77, .seqlen_kv = 130},
                 GetParam());
  c.with_sinks();
  const Tensor bias = random({4}), factors = random({4}, DType::f32, 12);
  const Scalar<f32> cap = 3.0f, weight = 0.02f;
  const auto b = bias.to_doubles(), f = factors.to_doubles();
  c.host.score = [=](double s, int, int h, int q, int kv) {
    return 3 * std::tanh((s * f[index(h)] + b[index(h)] + 0.02 * (q - kv)) / 3);
  };
  const auto slope = [=](const Pair& at, double s) {
    const double x = s * f[index(at[1])] + b[index(at[1])] +
                     0.02 * static_cast<double>(at[2] - at[3]),
                 t = std::tanh(x / 3);
    return std::array{x, t, 1 - t * t};
  };
  c.captured = {
      {bias, output({4})}, {factors, output({4})}, {cap, output({1})}, {weight, output({})}};
  const Score score =
      scores::compose(scores::compose(scores::head_temperature(factors), scores::head_bias(bias)),
                      scores::compose(scores::relative_bias(weight), scores::softcap(cap)));
  check({.score = score}, c,
        {[=](const Pair& at, double s, const AddSlope& add) { add(at[1], slope(at, s)[2]); },
         [=](const Pair& at, double s, const AddSlope& add) { add(at[1], slope(at, s)[2] * s); },
         [=](const Pair& at, double s, const AddSlope& add) {
           const auto [x, t, by] = slope(at, s);
           add(0, t - x / 3 * by);
         },
         [=](const Pair& at, double s, const AddSlope& add) {
           add(0, slope(at, s)[2] * static_cast<double>(at[2] - at[3]));
         }});
}

TEST_P(BackwardCaptured, VectorsOfQueriesAndKeys) {
  BackwardCase c({.batch = 2, .heads = 2, .kv_heads = 1, .seqlen_q = 150, .seqlen_kv = 150},
                 GetParam());
  const Dims shape{2, 2, 150};
  const Tensor f = random(shape), of_key = random({150}, DType::bf16), of_query = random({150});
  const auto sums = f.to_doubles(), keys = of_key.to_doubles(), queries = of_query.to_doubles();
  const auto row = [](int b, int h) { return (b * 2 + h) * 150; };
  c.host.mask = [](int, int, int q, int kv) { return q >= kv; };
  c.host.score = [=](double s, int b, int h, int q, int kv) {
    return s * queries[index(q)] + sums[index(row(b, h) + q)] - sums[index(row(b, h) + kv)] +
           keys[index(kv)];
  };
  c.captured = {
      {f, output(shape)}, {of_key, output({150}, DType::bf16)}, {of_query, output({150})}};
  const Score score =
      scores::compose(scores::compose(scores::query_temperature(of_query), scores::forgetting(f)),
                      [&](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile& kv) {
                        return s + cast<f32>(view<bf16, 1>(of_key)(kv));
                      });
  check({.mask = masks::causal(), .score = score}, c,
        {[=](const Pair& at, double, const AddSlope& add) {
           const std::int64_t first = (at[0] * 2 + at[1]) * 150;
           add(first + at[2], 1), add(first + at[3], -1);
         },
         one_at([](const Pair& at) { return at[3]; }),
         times_s([](const Pair& at) { return at[2]; })});
}

/// Masked pairs may read outside a table.
TEST_P(BackwardCaptured, TablesByDistanceAndByData) {
  constexpr int kLength = 100;
  BackwardCase c({.heads = 2, .seqlen_q = kLength, .seqlen_kv = kLength}, GetParam());
  const Tensor table = random({kLength, 2}), by_graph = random({2, 5}),
               distance = Tensor::integers({1, kLength, kLength}, DType::i32, 0, 5, 3, GetParam());
  const auto entries = table.to_doubles(), graph = by_graph.to_doubles(),
             steps = distance.to_doubles();
  const auto entry = [](const Pair& at) { return (at[2] - at[3]) * 2 + at[1]; };
  const auto node = [=](const Pair& at) {
    return at[1] * 5 + static_cast<std::int64_t>(steps[index(at[2] * kLength + at[3])]);
  };
  c.host.mask = [](int, int, int q, int kv) { return q >= kv; };
  c.host.score = [=](double s, int b, int h, int q, int kv) {
    const Pair at{b, h, q, kv};
    return q < kv ? s : s + entries[index(entry(at))] + graph[index(node(at))];
  };
  c.captured = {{table, output({kLength, 2})}, {by_graph, output({2, 5})}};
  const Score score =
      scores::compose(scores::distance_bias(table, 0), scores::graph_distance(by_graph, distance));
  check({.mask = masks::causal(), .score = score}, c, {one_at(entry), one_at(node)});
}

/// Scores of the catalogue, whose slopes are central differences. At head dim 128 an iteration has
/// 32 queries.
TEST_P(BackwardCaptured, ScoresOfTheCatalogue) {
  for (const int dim : {64, 128})
    for (const CapturedScore& of : captured_scores(2, 70, GetParam())) {
      BackwardCase c({.batch = 2,
                      .heads = 2,
                      .kv_heads = 1,
                      .seqlen_q = 70,
                      .seqlen_kv = 70,
                      .dim = dim,
                      .head_dim_v = dim},
                     GetParam());
      c.host = of.attention();
      c.captured = {of.captured};
      c.run(Attention({.mask = masks::causal(), .score = of.score}));
      expect_captured_score(c, of);
      if (HasFatalFailure()) return;
    }
}

/// Scores used as weights; only gradients of captures are requested.
TEST_P(BackwardCaptured, WithoutSoftmaxAndOtherGradients) {
  BackwardCase c({.heads = 2, .seqlen_q = 90, .seqlen_kv = 90}, GetParam());
  c.dQ = c.dK = c.dV = {};
  const Tensor bias = random({2});
  const auto b = bias.to_doubles();
  const auto sigmoid_of = [=](double s, std::int64_t h) {
    return 1 / (1 + std::exp(-s - b[index(h)]));
  };
  c.host.mask = [](int, int, int q, int kv) { return q >= kv; };
  c.host.score = [=](double s, int, int h, int, int) { return sigmoid_of(s, h); };
  c.captured = {{bias, output({2})}};
  const auto score = [=](const Tile& s, const Tile&, const Tile& h, const Tile&, const Tile&) {
    return sigmoid(s + view<f32, 1>(bias)(h));
  };
  check({.mask = masks::causal(), .score = score, .weighting = AttentionNormalization::none}, c,
        {[=](const Pair& at, double s, const AddSlope& add) {
          const double w = sigmoid_of(s, at[1]);
          add(at[1], w * (1 - w));
        }});
}

/// An attention is called with other captures, and with other tensors in the captured variable.
TEST_P(BackwardCaptured, GradientsOfEachCallAreItsOwn) {
  BackwardCase c({.heads = 2, .seqlen_q = 50, .seqlen_kv = 50}, GetParam());
  Tensor a = random({2}), b = random({50}, DType::f32, 13);
  const Attention attention(
      {.score = [&](const Tile& s, const Tile&, const Tile& h, const Tile&, const Tile& kv) {
        return s + view<f32, 1>(a)(h) + view<f32, 1>(b)(kv);
      }});
  const auto by_head = one_at([](const Pair& at) { return at[1]; }),
             by_key = one_at([](const Pair& at) { return at[3]; });
  const auto check_call = [&](const std::vector<Slopes>& slopes) {
    c.host.score = [x = a.to_doubles(), y = b.to_doubles()](double s, int, int h, int, int kv) {
      return s + x[index(h)] + y[index(kv)];
    };
    c.run(attention);
    expect_captured(c, slopes);
  };
  c.captured = {{b, output({50})}};
  check_call({by_key});
  c.captured = {{a, output({2})}, {b, output({50})}};
  check_call({by_head, by_key});
  a = random({2}, DType::f32, 14);
  c.captured = {{b, output({50})}, {a, output({2})}};
  check_call({by_key, by_head});
  c.captured = {};
  check_call({});
}

/// A masked pair whose slope is infinite or NaN adds nothing.
TEST_P(BackwardCaptured, SlopesThatAreNotFinite) {
  BackwardCase c({.heads = 2, .seqlen_q = 70, .seqlen_kv = 70}, GetParam());
  const Tensor weights = random({2});
  const auto w = weights.to_doubles();
  const auto slope = [](std::int64_t q, std::int64_t kv) {
    return std::log(static_cast<double>(q - kv));
  };
  c.host.mask = [](int, int, int q, int kv) { return q > kv; };
  c.host.score = [=](double s, int, int h, int q, int kv) {
    return s + w[index(h)] * slope(q, kv);
  };
  c.captured = {{weights, output({2})}};
  const auto score = [=](const Tile& s, const Tile&, const Tile& h, const Tile& q, const Tile& kv) {
    return s + view<f32, 1>(weights)(h) * log(cast<f32>(q - kv));
  };
  const auto mask = [](const Tile&, const Tile&, const Tile& q, const Tile& kv) { return q > kv; };
  check({.mask = mask, .score = score}, c,
        {[=](const Pair& at, double, const AddSlope& add) { add(at[1], slope(at[2], at[3])); }});
}

TEST_P(BackwardCaptured, CallsWithoutPairsGiveZeros) {
  for (const auto& [q, kv] : {std::pair{0, 30}, {30, 0}}) {
    BackwardCase c({.heads = 2, .seqlen_q = q, .seqlen_kv = kv}, GetParam());
    const Tensor bias = random({2}, DType::bf16);
    c.captured = {{bias, output({2}, DType::bf16)}};
    c.run(Attention({.score = [&](const Tile& s, const Tile&, const Tile& h, const Tile&,
                                  const Tile&) { return s + cast<f32>(view<bf16, 1>(bias)(h)); }}));
    EXPECT_EQ(c.captured[0].into.to_doubles(), std::vector<double>(2, 0));
  }
}

// ---- errors
TEST_P(BackwardCaptured, Refusals) {
  const Tensor bias = random({2, 3}), integers = Tensor::zeros({2, 3}, DType::i32, GetParam());
  const Scalar<f32> factor = 1.0f;
  const Score score = [&](const Tile& s, const Tile&, const Tile& h, const Tile&, const Tile&) {
    return s + view<f32, 2>(bias)(h, 1) * cast<f32>(view<i32, 2>(integers)(h, 1));
  };
  const auto expect = [&](const Score& of, const std::vector<CapturedGradient>& captured,
                          const char* code, const char* text) {
    BackwardCase c({.heads = 2, .seqlen_q = 20, .seqlen_kv = 20}, GetParam());
    c.captured = captured;
    try {
      c.run(Attention({.score = of}));
      ADD_FAILURE() << "no error: " << text;
    } catch (const CompileError& e) {
      EXPECT_EQ(e.diagnostic().code, code) << e.what();
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  const Tensor fits = output({2, 3});
  expect(score, {{random({2, 3}), fits}}, "T1662", "which the score does not capture");
  expect(score, {{bias, fits}, {factor, output({1})}}, "T1662",
         "captured[1] cannot be the gradient of");
  expect(score, {{integers, fits}}, "T1662", "which the score does not capture");
  expect({}, {{bias, fits}}, "T1662", "which the score does not capture");
  expect(score, {{bias, output({3, 2})}}, "T1662", "captured[0].into cannot be");
  expect(score, {{bias, output({2, 3}, DType::bf16)}}, "T1662", "captured[0].into cannot be");
  expect(score, {{bias, Tensor()}}, "T1662", "captured[0].into cannot be left out");
  expect(score, std::vector<CapturedGradient>(9, {bias, fits}), "T1662", "at most 8");
  expect([&](const Tile& s, const Tile&, const Tile& h, const Tile&,
             const Tile&) { return s + bitcast<f32>(bitcast<i32>(view<f32, 2>(bias)(h, 1)) + 1); },
         {{bias, fits}}, "T1022", "bitcast");
}

}  // namespace
}  // namespace tegula::test::backward_captured_test
