// Attention with every score function of the library, compared with its formula in double.
#include "tegula/kernels/scores.h"

#include "tegula/kernels/masks.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::scores_test {
using namespace kernels;
namespace {

constexpr int kBatch = 2, kHeads = 4, kQueries = 70, kKeys = 133;

using HostScore = std::function<double(double s, int b, int h, int q, int kv)>;

class Scores : public testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
  static Tensor normal(const Dims& shape, std::uint64_t seed, DType dtype = DType::f32) {
    return Tensor::normal(shape, dtype, 0, 1, seed, device());
  }
  static Tensor integers(const Dims& shape, std::int64_t high, std::uint64_t seed) {
    return Tensor::integers(shape, DType::i32, 0, high, seed, device());
  }

  /// Under a mask that is nearly causal, with the group's keys shared.
  static void check(const Score& score, const HostScore& host_score, int queries = kQueries,
                    int keys = kKeys) {
    HostAttention host;
    host.score = host_score;
    host.mask = [](int, int, int q, int kv) { return kv - q <= 50; };
    const Attention attention({.mask = masks::window(1000, 50), .score = score});
    const Tensors t({kBatch, kHeads, 2, queries, keys, 32, 32}, DType::bf16, Order::bhsd, device());
    attention(Stream(device()), t.Q, t.K, t.V, t.O, t.extras());
    expect_attention(host, t, /*maxima=*/true);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Scores, testing::ValuesIn(devices()), device_name);

/// Element [i, j, ..] of a row-major copy.
class HostTable {
 public:
  explicit HostTable(const Tensor& t) : shape_(t.shape()), values_(t.to_doubles()) {}
  double operator()(std::initializer_list<int> index) const {
    std::int64_t at = 0;
    std::size_t dim = 0;
    for (const int i : index) at = at * shape_[dim] + (shape_[dim] == 1 ? 0 : i), ++dim;
    return values_[static_cast<std::size_t>(at)];
  }

 private:
  Dims shape_;
  std::vector<double> values_;
};

TEST_P(Scores, Softcap) {
  check(scores::softcap(1.5f),
        [](double s, int, int, int, int) { return 1.5 * std::tanh(s / 1.5); });
  check(scores::softcap(Scalar<f32>(0.7f), scores::Tanh::approximate),
        [](double s, int, int, int, int) { return 0.7 * std::tanh(s / 0.7); });
}

/// Uniform attention, and weights by key, query or head alone: the score is one number, a row or a
/// column, with and without a mask.
TEST_P(Scores, IndependentOfTheProduct) {
  const auto both = [](const Score& score, const HostScore& host_score) {
    check(score, host_score);
    HostAttention host;
    host.score = host_score;
    const Attention attention({.score = score});
    const Tensors t({1, 2, 2, kQueries, kKeys, 32, 32}, DType::bf16, Order::bhsd, device());
    attention(Stream(device()), t.Q, t.K, t.V, t.O, t.extras());
    expect_attention(host, t, /*maxima=*/true);
  };
  both([](Tile, Tile, Tile, Tile, Tile) { return Tile(0.5f); },
       [](double, int, int, int, int) { return 0.5; });
  both([](Tile, Tile, Tile, Tile, Tile kv) { return cast<f32>(kv) * -0.1f; },
       [](double, int, int, int, int kv) { return kv * -0.1; });
  both([](Tile, Tile, Tile, Tile q, Tile) { return cast<f32>(q) * -0.1f; },
       [](double, int, int, int q, int) { return q * -0.1; });
  both([](Tile, Tile, Tile h, Tile, Tile) { return cast<f32>(h); },
       [](double, int, int h, int, int) { return h; });
  both([](Tile s, Tile, Tile, Tile, Tile) { return s * 0.0f; },
       [](double, int, int, int, int) { return 0; });
}

/// `exact` promises an error of 2^-20 of the cap: from 0 to where the function is 1, and beyond.
TEST_P(Scores, SoftcapKeepsItsBound) {
  constexpr float cap = 30;
  constexpr int count = 4096;
  std::vector<float> in;
  for (int i = 0; i < count; ++i) {
    const float x = 400.0f * static_cast<float>(i) / count;
    in.push_back(i % 3 == 0 ? x : i % 3 == 1 ? -x : x * x * x * 1e-9f);
  }
  const auto k = kernel("capped", [](In<f32, 1> s, Out<f32, 1> out) {
    for (auto i : grid(out, 128)) out(i) = scores::softcap(cap)(s(i), 0, 0, 0, 0);
  });
  const Tensor s = Tensor::from(in, device()), out = Tensor::zeros({count}, DType::f32, device());
  k(Stream(device()), s, out);
  const std::vector<double> got = out.to_doubles();
  for (std::size_t i = 0; i < in.size(); ++i)
    ASSERT_NEAR(got[i], cap * std::tanh(static_cast<double>(in[i]) / cap), cap * 0x1p-20) << in[i];
}

/// Far from the first position, weights depend on differences of biases that are far larger.
TEST_P(Scores, AlibiOfFarPositions) {
  const int before = 1 << 23;
  const auto shifted = [=](Tile s, Tile b, Tile h, Tile q, Tile kv) {
    return scores::alibi(kHeads)(s, b, h, q + before, kv + before);
  };
  check(shifted, [](double s, int, int h, int q, int kv) {
    return s + (kv - q) * std::exp2(-8.0 * (h + 1) / kHeads);
  });
}

/// Blocks of keys, tiles of queries: positions are those of the whole tensor in each of them.
TEST_P(Scores, PositionsOfManyBlocks) {
  const Tensor slopes = Tensor::from(std::vector<float>{0.5f, -0.02f, 0, 1.5f}, device());
  check(
      scores::alibi(slopes),
      [of = HostTable(slopes)](double s, int, int h, int q, int kv) {
        return s + (kv - q) * of({h});
      },
      150, 330);
  check(
      [](Tile s, Tile, Tile h, Tile q, Tile kv) {
        return s * 2.0f + cast<f32>(kv) * 0.01f - cast<f32>(q - 3 * kv + 7) * cast<f32>(h) * 0.002f;
      },
      [](double s, int, int h, int q, int kv) {
        return s * 2 + kv * 0.01 - (q - 3 * kv + 7) * h * 0.002;
      },
      150, 330);
}

/// Sums that a user writes in another order: terms of a row separately and with all others.
TEST_P(Scores, SumsOfTheUser) {
  const Tensor rows = normal({kQueries}, 21), columns = normal({kKeys}, 22);
  const HostTable needs_row_scan(rows), of_column(columns);
  check(
      [=](Tile s, Tile, Tile h, Tile q, Tile kv) {
        const Tile weight = exp2(cast<f32>(h) * -0.5f);
        return s - cast<f32>(q) * weight + cast<f32>(kv) * weight - view<f32, 1>(rows)(q);
      },
      [=](double s, int, int h, int q, int kv) {
        return s + (kv - q) * std::exp2(-0.5 * h) - needs_row_scan({q});
      });
  check(
      [=](Tile s, Tile, Tile, Tile q, Tile kv) {
        const Tile bias = view<f32, 1>(rows)(q) * 0.5f - view<f32, 1>(columns)(kv);
        return (s + bias) * 2.0f - bias / 4.0f;
      },
      [=](double s, int, int, int q, int kv) {
        return (s + needs_row_scan({q}) / 2 - of_column({kv})) * 2 -
               (needs_row_scan({q}) / 2 - of_column({kv})) / 4;
      });
  check([=](Tile s, Tile, Tile, Tile q,
            Tile kv) { return where(q > kv, s + view<f32, 1>(rows)(q), -s) * -1.5f; },
        [=](double s, int, int, int q, int kv) {
          return (q > kv ? s + needs_row_scan({q}) : -s) * -1.5;
        });
}

TEST_P(Scores, Alibi) {
  check(scores::alibi(kHeads), [](double s, int, int h, int q, int kv) {
    return s + (kv - q) * std::exp2(-8.0 * (h + 1) / kHeads);
  });
  const Tensor slopes = normal({kHeads}, 1);
  check(scores::alibi(slopes), [slope = HostTable(slopes)](double s, int, int h, int q, int kv) {
    return s + (kv - q) * slope({h});
  });
}

TEST_P(Scores, Biases) {
  check(scores::relative_bias(0.1f),
        [](double s, int, int, int q, int kv) { return s + 0.1 * (q - kv); });
  const Tensor heads = normal({kHeads}, 2), distances = normal({kQueries + kKeys, kHeads}, 3);
  check(scores::head_bias(heads),
        [of = HostTable(heads)](double s, int, int h, int, int) { return s + of({h}); });
  check(scores::distance_bias(distances, kKeys),
        [of = HostTable(distances)](double s, int, int h, int q, int kv) {
          return s + of({q - kv + kKeys, h});
        });
}

/// Tables and Scalars are read at each launch.
TEST_P(Scores, NewTablesAndNumbersCompileNothing) {
  const Tensor biases = normal({kHeads}, 13);
  Scalar<f32> cap = 1.5f;
  const Attention attention(
      {.score = scores::compose(scores::softcap(cap), scores::head_bias(biases))});
  const Tensors t({kBatch, kHeads, 2, kQueries, kKeys, 32, 32}, DType::bf16, Order::bhsd, device());
  const auto run = [&](double number, std::uint64_t seed) {
    cap = static_cast<float>(number);
    biases.copy_from(normal({kHeads}, seed));
    HostAttention host;
    host.score = [&, of = HostTable(biases)](double s, int, int h, int, int) {
      return number * std::tanh(s / number) + of({h});
    };
    attention(Stream(device()), t.Q, t.K, t.V, t.O, t.extras());
    expect_attention(host, t, /*maxima=*/true);
  };
  run(1.5, 13);
  const std::size_t once = times_compiled(attention);
  run(0.4, 14);
  run(7, 15);
  EXPECT_EQ(times_compiled(attention), once);
}

TEST_P(Scores, FullBias) {
  for (const Dims& shape : {Dims{kBatch, kHeads, kQueries, kKeys}, Dims{1, kHeads, kQueries, kKeys},
                            Dims{kBatch, 1, 1, kKeys}, Dims{kBatch, kHeads, kQueries, 1}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor bias = normal(shape, 4, dtype);
      check(scores::bias(bias), [of = HostTable(bias)](double s, int b, int h, int q, int kv) {
        return s + of({b, h, q, kv});
      });
      if (HasFatalFailure()) return;
    }
}

/// As Hugging Face's T5 computes it.
int t5_bucket(int ahead, int buckets, int max_distance, bool bidirectional) {
  int bucket = 0, distance = std::max(0, -ahead);
  if (bidirectional) {
    buckets /= 2;
    bucket = ahead > 0 ? buckets : 0;
    distance = std::abs(ahead);
  }
  const int exact = buckets / 2;
  if (distance < exact) return bucket + distance;
  const double share = std::log(double(distance) / exact) / std::log(double(max_distance) / exact);
  return bucket + std::min(exact + static_cast<int>(share * (buckets - exact)), buckets - 1);
}

TEST_P(Scores, T5) {
  const Tensor table = normal({32, kHeads}, 5);
  for (const bool both : {false, true})
    check(scores::t5_bias(table, 100, both),
          [=, of = HostTable(table)](double s, int, int h, int q, int kv) {
            return s + of({t5_bucket(kv - q, 32, 100, both), h});
          });
}

TEST_P(Scores, Graphs) {
  const Tensor bias = normal({kHeads, 9}, 6), distance = integers({kBatch, kQueries, kKeys}, 8, 7);
  check(scores::graph_distance(bias, distance),
        [of = HostTable(bias), d = HostTable(distance)](double s, int b, int h, int q, int kv) {
          return s + of({h, static_cast<int>(d({b, q, kv}))});
        });
  const Tensor table = normal({3, kHeads, 5}, 8),
               types = integers({kBatch, kQueries, kKeys, 3}, 4, 9),
               lengths = integers({kBatch, kQueries, kKeys}, 3, 10);
  check(scores::graph_edges(table, types, lengths),
        [of = HostTable(table), type = HostTable(types), length = HostTable(lengths)](
            double s, int b, int h, int q, int kv) {
          const int n = static_cast<int>(length({b, q, kv}));
          double sum = 0;
          for (int i = 0; i < n; ++i) sum += of({i, h, static_cast<int>(type({b, q, kv, i}))});
          return s + sum / std::max(n, 1);
        });
}

TEST_P(Scores, Temperatures) {
  const Tensor by_query = normal({kQueries}, 11), by_head = normal({kHeads}, 12);
  check(scores::query_temperature(by_query),
        [of = HostTable(by_query)](double s, int, int, int q, int) { return s * of({q}); });
  check(scores::head_temperature(by_head),
        [of = HostTable(by_head)](double s, int, int h, int, int) { return s * of({h}); });
  check(scores::log_length(64.0f),
        [](double s, int, int, int q, int) { return s * std::log(q + 1) / std::log(64); });
}

TEST_P(Scores, Forgetting) {
  const Tensor f = normal({kBatch, kHeads, kKeys}, 13);
  check(scores::forgetting(f), [of = HostTable(f)](double s, int b, int h, int q, int kv) {
    return s + of({b, h, q}) - of({b, h, kv});
  });
}

TEST_P(Scores, Activations) {
  check(scores::activation([](Tile s) { return sigmoid(s); }),
        [](double s, int, int, int, int) { return std::log(1 / (1 + std::exp(-s))); });
  // Half of the weights are 0.
  check(scores::activation([](Tile s) {
          const Tile positive = max(0.0f, s);
          return positive * positive;
        }),
        [](double s, int, int, int, int) { return std::log(std::max(s, 0.0) * std::max(s, 0.0)); });
}

TEST_P(Scores, Compose) {
  check(scores::compose(scores::softcap(2.0f), scores::alibi(kHeads)),
        [](double s, int, int h, int q, int kv) {
          return 2 * std::tanh(s / 2) + (kv - q) * std::exp2(-8.0 * (h + 1) / kHeads);
        });
}

TEST(ScoreErrors, AreReadable) {
  const auto f32s = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::f32, Device::cpu());
  };
  EXPECT_THROW(scores::alibi(0), CompileError);
  EXPECT_THROW(scores::t5_bias(f32s({32}), 100, true), CompileError);
  EXPECT_THROW(scores::t5_bias(f32s({32, 4}), 8, true), CompileError);
  EXPECT_THROW(scores::bias(f32s({4, 4})), CompileError);
  EXPECT_THROW(scores::graph_edges(f32s({4, 4}), {}, {}), CompileError);
}

}  // namespace
}  // namespace tegula::test::scores_test
