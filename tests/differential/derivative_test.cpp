// Derivatives of recorded expressions against finite differences in double: the catalogue of score
// functions, and random functions of all ops that have a rule.
#include "tegula/derivative.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "ir/kernel.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::derivative_test {
namespace {

using namespace kernels;
using Doubles = std::vector<double>;

constexpr int kQueries = 8, kKeys = 16, kPairs = kQueries * kKeys;
constexpr int kHeads = 4, kHead = 2, kBatch = 0;

Tensor drawn(const Dims& shape, Device device, double low, double high, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> of(static_cast<float>(low), static_cast<float>(high));
  std::vector<float> all(1);
  for (const std::int64_t n : shape) all.resize(all.size() * static_cast<std::size_t>(n));
  for (float& v : all) v = of(random);
  return Tensor::from(all, Device::cpu()).reshape(shape).to(device);
}

auto slopes_of(const Score& score) {
  return kernel("slopes", [score](In<f32, 2> s, Out<f32, 2> y, Out<f32, 2> dy) {
    for (auto [q, kv] : grid(s, kQueries, kKeys)) {
      const Tile x = s(q, kv);
      const Tile score_of = score(x, kBatch, kHead, expand(q, 1), expand(kv, 0)),
                 value = broadcast(score_of, {kQueries, kKeys});
      y(q, kv) = value;
      dy(q, kv) = derivative(value, x, full<f32>(1, kQueries, kKeys));
    }
  });
}

/// The value and the slope of a score at each pair.
struct Evaluated {
  Doubles value, slope;
};
Evaluated evaluated(const Score& score, const Tensor& s) {
  const Tensor y = Tensor::empty(s.shape(), DType::f32, s.device()),
               dy = Tensor::empty(s.shape(), DType::f32, s.device());
  slopes_of(score)(s, y, dy);
  return {y.to_doubles(), dy.to_doubles()};
}

// ---- catalogue
class DerivativesOfScores : public testing::TestWithParam<Device> {
 protected:
  /// Compares slopes with those of `slope(s, q, kv)`.
  void expect_slopes(const char* name, const Score& score,
                     const std::function<double(double s, int q, int kv)>& slope,
                     double tolerance = 2e-5) {
    const Tensor s = drawn({kQueries, kKeys}, GetParam(), -4, 4);
    const Doubles at = s.to_doubles(), got = evaluated(score, s).slope;
    for (int i = 0; i < kPairs; ++i) {
      const auto n = static_cast<std::size_t>(i);
      const double want = slope(at[n], i / kKeys, i % kKeys);
      ASSERT_NEAR(got[n], want, tolerance * (1 + std::abs(want))) << name << " at " << at[n];
    }
  }
  Tensor table(const Dims& shape) const { return drawn(shape, GetParam(), 0.5, 2, 3); }
  Tensor numbers(const Dims& shape) const { return Tensor::zeros(shape, DType::i32, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, DerivativesOfScores, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(DerivativesOfScores, TheCatalogue) {
  const auto one = [](double, int, int) { return 1.0; };
  const auto capped = [](double s, int, int) { return 1 - std::pow(std::tanh(s / 3), 2); };
  expect_slopes("softcap", scores::softcap(3.0f), capped);
  expect_slopes("softcap of a Scalar", scores::softcap(Scalar<f32>(3.0f)), capped);
  expect_slopes("approximate", scores::softcap(3.0f, scores::Tanh::approximate), capped, 2e-3);
  expect_slopes("alibi", scores::alibi(kHeads), one);
  expect_slopes("alibi of a tensor", scores::alibi(table({kHeads})), one);
  expect_slopes("relative bias", scores::relative_bias(0.1f), one);
  expect_slopes("head bias", scores::head_bias(table({kHeads})), one);
  expect_slopes("distance bias", scores::distance_bias(table({64, kHeads}), 32), one);
  expect_slopes("t5", scores::t5_bias(table({8, kHeads}), 16, true), one);
  expect_slopes("bias", scores::bias(table({1, kHeads, kQueries, kKeys})), one);
  expect_slopes("graph distance",
                scores::graph_distance(table({kHeads, 3}), numbers({1, kQueries, kKeys})), one);
  expect_slopes("graph edges",
                scores::graph_edges(table({2, kHeads, 3}), numbers({1, kQueries, kKeys, 2}),
                                    numbers({1, kQueries, kKeys})),
                one);
  expect_slopes("forgetting", scores::forgetting(table({1, kHeads, kKeys})), one);
  const Tensor queries = table({kQueries}), heads = table({kHeads});
  const Doubles of_query = queries.to_doubles(), of_head = heads.to_doubles();
  expect_slopes("query temperature", scores::query_temperature(queries),
                [&](double, int q, int) { return of_query[static_cast<std::size_t>(q)]; });
  expect_slopes("head temperature", scores::head_temperature(heads),
                [&](double, int, int) { return of_head[kHead]; });
  expect_slopes("log length", scores::log_length(100.0f),
                [](double, int q, int) { return std::log(q + 1.0) / std::log(100.0); });
  expect_slopes("activation", scores::activation([](const Tile& s) { return sigmoid(s); }),
                [](double s, int, int) { return 1 / (1 + std::exp(s)); });
  expect_slopes(
      "composed", scores::compose(scores::head_temperature(heads), scores::softcap(3.0f)),
      [&](double s, int, int) { return of_head[kHead] * capped(s * of_head[kHead], 0, 0); });
  const auto visible = [](const Tile& s, const Tile&, const Tile&, const Tile& q, const Tile& kv) {
    return where(q >= kv, s * s, -inf);
  };
  expect_slopes("masked", visible, [](double s, int q, int kv) { return q >= kv ? 2 * s : 0; });
}

TEST_P(DerivativesOfScores, Activations) {
  const auto of = [](Tile (*f)(const Arg&)) {
    return [f](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) { return f(s); };
  };
  const auto sigmoid_at = [](double s) { return 1 / (1 + std::exp(-s)); };
  expect_slopes("sigmoid", of(sigmoid),
                [&](double s, int, int) { return sigmoid_at(s) * (1 - sigmoid_at(s)); });
  expect_slopes("silu", of(silu),
                [&](double s, int, int) { return sigmoid_at(s) * (1 + s * (1 - sigmoid_at(s))); });
  expect_slopes("softplus", of(softplus), [&](double s, int, int) { return sigmoid_at(s); });
  expect_slopes("gelu", of(gelu), [](double s, int, int) {
    return std::erfc(-s / std::sqrt(2.0)) / 2 + s * std::exp(-s * s / 2) / std::sqrt(2 * M_PI);
  });
  expect_slopes(
      "gelu_tanh_approx", of(gelu_tanh_approx),
      [](double s, int, int) {
        const double k = std::sqrt(2 / M_PI), t = std::tanh(k * (s + 0.044715 * s * s * s));
        return (1 + t) / 2 + s / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * s * s);
      },
      2e-3);
}

TEST_P(DerivativesOfScores, TablesThatTheyRead) {
  const Tensor queries = table({kQueries}), heads = table({kHeads}),
               s = drawn({kQueries, kKeys}, GetParam(), -4, 4),
               of_queries = Tensor::zeros({kQueries}, DType::f32, GetParam()),
               of_head = Tensor::zeros({1}, DType::f32, GetParam());
  const Score score =
      scores::compose(scores::query_temperature(queries), scores::head_temperature(heads));
  kernel("tables", [&](In<f32, 2> x, Out<f32, 1> by_query, Out<f32, 1> by_head) {
    for (auto [q, kv] : grid(x, kQueries, kKeys)) {
      const Tile v = x(q, kv), y = score(v, kBatch, kHead, expand(q, 1), expand(kv, 0));
      const auto wants = [](const CaptureSource& c) { return c.tensor != nullptr; };
      const Adjoints found = adjoints(y, full<f32>(1, kQueries, kKeys), {}, wants);
      for (const CaptureAdjoint& a : found.captured) {
        if (a.adjoint.rank() == 0)
          by_head(0) = a.adjoint;
        else
          by_query(q) = reshape(a.adjoint, {kQueries});
      }
    }
  })(s, of_queries, of_head);
  const Doubles at = s.to_doubles(), of_query = queries.to_doubles(), got = of_queries.to_doubles();
  double total = 0;
  for (std::size_t q = 0; q < kQueries; ++q) {
    double sum = 0;
    for (std::size_t kv = 0; kv < kKeys; ++kv) sum += at[q * kKeys + kv];
    EXPECT_NEAR(got[q], sum * heads.to_doubles()[kHead], 1e-4);
    total += sum * of_query[q];
  }
  EXPECT_NEAR(of_head.to_doubles()[0], total, 1e-3);
}

// ---- random functions
/// Captures of the functions: factors by row, a table by distance, and a factor.
struct Tables {
  Tensor rows, distances;
  Doubles row, distance;
  Scalar<f32> scalar = 0.75f;
  double factor = 0.75;
};
struct TileContext {
  Tile q, kv;
  const Tables& tables;
};
struct NumberContext {
  int q, kv;
  const Tables& tables;
};
using TileFunction = Tile (*)(const Tile& a, const Tile& b, const TileContext&);
using NumberFunction = double (*)(double a, double b, const NumberContext&);

/// A function of one or two arguments, bounded for bounded arguments, in both arithmetics.
struct Step {
  const char* name;
  TileFunction tile;
  NumberFunction number;
};
#define STEP(name, in_tiles, in_numbers)                                 \
  Step {                                                                 \
    name,                                                                \
        [](const Tile& a, const Tile& b, const TileContext& c) -> Tile { \
          (void)a, (void)b, (void)c;                                     \
          return in_tiles;                                               \
        },                                                               \
        [](double a, double b, const NumberContext& c) -> double {       \
          (void)a, (void)b, (void)c;                                     \
          return in_numbers;                                             \
        }                                                                \
  }

Tile by_branch(const Tile& a, const Tile& b) {
  Tile y = a;
  if_(full<i32>(3) > 2, [&] { y = a * b; }, [&] { y = a + b; });
  return y;
}
Tile by_loop(const Tile& a, const Tile& b) {
  Tile y = a;
  for (auto n : steps(3, 1)) y = y * 0.5f + b * cast<f32>(n.first());
  return y;
}
Tile by_sum(const Tile& a, const Tile& b) {
  Tile y = a;
  for (auto n : steps(20, 1)) y = y + b * (cast<f32>(n.first()) * 0.01f);
  return y;
}

const std::vector<Step>& all_steps() {
  static const std::vector<Step> steps{
      STEP("add", a + b, a + b),
      STEP("sub", a - b, a - b),
      STEP("mul", a * b, a * b),
      STEP("div", a / (abs(b) + 0.5f), a / (std::abs(b) + 0.5)),
      STEP("fma", fma(a, b, a), a * b + a),
      STEP("min", min(a, b), std::min(a, b)),
      STEP("max", max(a, 0.25f * b), std::max(a, 0.25 * b)),
      STEP("neg", -a, -a),
      STEP("select", where(a > b, a * b, b), a > b ? a * b : b),
      STEP("wide", cast<f32>(cast<f64>(a) * 0.75), a * 0.75),
      STEP("exp2", exp2(a), std::exp2(a)),
      STEP("log2", log2(abs(a) + 0.5f), std::log2(std::abs(a) + 0.5)),
      STEP("sqrt", sqrt(abs(a) + 0.5f), std::sqrt(std::abs(a) + 0.5)),
      STEP("rsqrt", rsqrt(abs(a) + 0.5f), 1 / std::sqrt(std::abs(a) + 0.5)),
      STEP("rcp", rcp(abs(a) + 0.5f), 1 / (std::abs(a) + 0.5)),
      STEP("rcp_approx", rcp_approx(abs(a) + 0.5f), 1 / (std::abs(a) + 0.5)),
      STEP("tanh_approx", tanh_approx(a), std::tanh(a)),
      STEP("sin_approx", sin_approx(a), std::sin(a)),
      STEP("cos_approx", cos_approx(a), std::cos(a)),
      STEP("exp", exp(a), std::exp(a)),
      STEP("log", log(abs(a) + 0.5f), std::log(std::abs(a) + 0.5)),
      STEP("sin", sin(a), std::sin(a)),
      STEP("cos", cos(a), std::cos(a)),
      STEP("tanh", tanh(a), std::tanh(a)),
      STEP("erf", erf(a), std::erf(a)),
      STEP("sigmoid", sigmoid(a), 1 / (1 + std::exp(-a))),
      STEP("stated", with_gradient(a * a, a, 2.0f * a), a * a),
      STEP("transposed", (0.5f * a.T()).T() + b, 0.5 * a + b),
      STEP("reshaped", reshape(reshape(a, {kPairs}) * 2.0f, {kQueries, kKeys}), 2 * a),
      STEP("filled", fill_absent(a, 0) * b, a * b),
      STEP("row", a * (view<f32, 1>(c.tables.rows)(c.q) + sum(b, 1)(all, none) * 0.0f),
           a * c.tables.row[static_cast<std::size_t>(c.q)]),
      STEP("distance", (a * view<f32, 1>(c.tables.distances)(c.q - c.kv + kKeys)),
           (a * c.tables.distance[static_cast<std::size_t>(c.q - c.kv + kKeys)])),
      STEP("scalar", a * c.tables.scalar + 0.25f * b, a * c.tables.factor + 0.25 * b),
      STEP("branch", by_branch(a, b), a * b),
      STEP("loop", by_loop(a, b), a / 8 + b * (0.5 + 2)),
      STEP("sum", by_sum(a, b), a + b * 1.9),
  };
  return steps;
}

/// A random function: each node applies a step to two earlier nodes; arguments are first brought
/// near 0. Node 0 is the variable.
class RandomFunction {
 public:
  RandomFunction(unsigned seed, std::size_t first_step) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return random() % n; };
    constexpr std::size_t kNodes = 5;
    for (std::size_t i = 0; i < kNodes; ++i) {
      // The last node is the argument of the next, so that the depth is the number of nodes.
      const std::size_t step = i == 1 ? first_step : below(all_steps().size());
      nodes_.push_back({&all_steps()[step], i, below(i + 1)});
    }
  }

  Score score(const Tables& tables) const {
    return [nodes = nodes_, &tables](const Tile& s, const Tile&, const Tile&, const Tile& q,
                                     const Tile& kv) {
      std::vector<Tile> values{s};
      for (const Node& n : nodes)
        values.push_back(n.step->tile(near(values[n.a]), near(values[n.b]), {q, kv, tables}));
      return values.back();
    };
  }
  double at(double s, const NumberContext& c) const {
    Doubles values{s};
    for (const Node& n : nodes_)
      values.push_back(n.step->number(near(values[n.a]), near(values[n.b]), c));
    return values.back();
  }
  std::string text() const {
    std::string all;
    for (const Node& n : nodes_) all += fmt::format("{}({}, {}) ", n.step->name, n.a, n.b);
    return all;
  }

 private:
  struct Node {
    const Step* step;
    std::size_t a, b;
  };
  static Tile near(const Tile& x) { return x * rcp(1.0f + 0.25f * x * x); }
  static double near(double x) { return x / (1 + 0.25 * x * x); }
  std::vector<Node> nodes_;
};

void collect_ops(const Score& score, std::set<ir::Opcode>& ops) {
  const auto tensor = [] { return Tensor::empty({kQueries, kKeys}, DType::f32, Device::cpu()); };
  const Trace trace = slopes_of(score).trace(tensor(), tensor(), tensor());
  const ir::Kernel& k = trace.kernel();
  ir::walk(k, k.body(), [&](ir::OpId op) { ops.insert(k[op].opcode); });
}

/// Compares slopes with differences. Skips arguments that are next to a kink, where the differences
/// on both sides disagree, and returns how many.
int expect_differences(const RandomFunction& f, const Tables& tables, Device device,
                       unsigned seed) {
  const Tensor s = drawn({kQueries, kKeys}, device, -2, 2, seed);
  const Doubles at = s.to_doubles(), got = evaluated(f.score(tables), s).slope;
  int kinks = 0;
  for (int i = 0; i < kPairs; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const NumberContext c{i / kKeys, i % kKeys, tables};
    constexpr double kStep = 1e-5;
    const double here = f.at(at[n], c), above = (f.at(at[n] + kStep, c) - here) / kStep,
                 below = (here - f.at(at[n] - kStep, c)) / kStep, want = (above + below) / 2;
    if (std::abs(above - below) > 1e-3 * (1 + std::abs(want))) {
      ++kinks;
      continue;
    }
    EXPECT_NEAR(got[n], want, 2e-4 * (1 + std::abs(want)))
        << "seed " << seed << " at " << at[n] << ": " << f.text();
    if (testing::Test::HasFailure()) break;
  }
  return kinks;
}

Tables tables_on(Device device) {
  Tables t{drawn({kQueries}, device, 0.5, 1.5, 7),
           drawn({kQueries + kKeys}, device, 0.5, 1.5, 8),
           {},
           {}};
  t.row = t.rows.to_doubles(), t.distance = t.distances.to_doubles();
  return t;
}

TEST(DerivativesOfRandomFunctions, AgreeWithDifferences) {
  constexpr unsigned kFunctions = 105;
  const Tables tables = tables_on(Device::cpu());
  std::set<ir::Opcode> ops;
  int kinks = 0;
  for (unsigned seed = 0; seed < kFunctions && !HasFailure(); ++seed) {
    const RandomFunction f(seed, seed % all_steps().size());
    kinks += expect_differences(f, tables, Device::cpu(), seed);
    collect_ops(f.score(tables), ops);
  }
  EXPECT_LT(kinks, static_cast<int>(kFunctions) * kPairs / 20);
  using enum ir::Opcode;
  // In unit_ir_differentiate_test, because they mix elements or cannot be written so.
  const std::set<ir::Opcode> elsewhere{Crop, Splat};
#define VJP(Name) EXPECT_TRUE(ops.contains(Name) || elsewhere.contains(Name)) << #Name;
#define INACTIVE(Name, why)
#define REFUSED(Name, why)
#include "ir/vjp.def"
}

/// All functions on a GPU; a few on the simulator, which compiles for seconds.
TEST(DerivativesOfRandomFunctions, AgreeOnOtherDevices) {
  for (const Device device : test::devices()) {
    if (device == Device::cpu()) continue;
    const Tables tables = tables_on(device);
    const unsigned count = device == Device::sim() ? 8 : 105;
    for (unsigned i = 0; i < count && !HasFailure(); ++i) {
      const unsigned seed = device == Device::sim() ? i * 13 : i;
      expect_differences(RandomFunction(seed, seed % all_steps().size()), tables, device, seed);
    }
  }
}

// ---- captures of random functions
/// The sums over all pairs of the slopes in each element of what a function captures.
struct CapturedSlopes {
  Doubles row, distance, factor;
};

CapturedSlopes captured_slopes(const RandomFunction& f, const Tables& tables, const Tensor& s) {
  const auto zeros = [&](std::int64_t n) { return Tensor::zeros({n}, DType::f32, s.device()); };
  const Tensor row = zeros(kQueries), distance = zeros(kQueries + kKeys), factor = zeros(1);
  kernel("captures",
         [score = f.score(tables), &tables](In<f32, 2> x, InOut<f32, 1> of_row,
                                            InOut<f32, 1> of_distance, InOut<f32, 1> of_factor) {
           for (auto [q, kv] : grid(x, kQueries, kKeys)) {
             const Tile v = x(q, kv), y = score(v, kBatch, kHead, expand(q, 1), expand(kv, 0));
             const auto all = [](const CaptureSource&) { return true; };
             const Tile one = full<f32>(1, kQueries, kKeys);
             const Adjoints found = adjoints(broadcast(y, {kQueries, kKeys}), one, {}, all);
             for (const CaptureAdjoint& a : found.captured) {
               if (a.source.scalar)
                 atomic_add(of_factor(0), a.adjoint);
               else if (a.source.tensor == &tables.rows)
                 atomic_add(of_row(q), reshape(a.adjoint, {kQueries}));
               else
                 atomic_add(of_distance(a.offsets[0]), a.adjoint);
             }
           }
         })(s, row, distance, factor);
  return {row.to_doubles(), distance.to_doubles(), factor.to_doubles()};
}

/// Compares one element's gradient with differences. Returns the number of kinks next to it.
int expect_captured(const RandomFunction& f, Tables& tables, const Doubles& at, double& element,
                    double got) {
  constexpr double kStep = 1e-5;
  const double kept = element;
  double want = 0, size = 0;
  for (int i = 0; i < kPairs; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const NumberContext c{i / kKeys, i % kKeys, tables};
    const auto with = [&](double value) {
      element = value;
      return f.at(at[n], c);
    };
    const double here = with(kept), above = (with(kept + kStep) - here) / kStep,
                 below = (here - with(kept - kStep)) / kStep;
    element = kept;
    if (std::abs(above - below) > 1e-3 * (1 + std::abs(above))) return 1;
    want += (above + below) / 2, size += std::abs(above);
  }
  EXPECT_NEAR(got, want, 2e-4 * (1 + size)) << f.text();
  return 0;
}

void expect_captures(Device device, unsigned count) {
  Tables tables = tables_on(device);
  int compared = 0, kinks = 0;
  for (unsigned seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    constexpr const char* kReads[] = {"row", "distance", "scalar"};
    const auto reads = std::ranges::find_if(
        all_steps(), [&](const Step& s) { return std::string(s.name) == kReads[seed % 3]; });
    const RandomFunction f(1000 + seed, static_cast<std::size_t>(reads - all_steps().begin()));
    const Tensor s = drawn({kQueries, kKeys}, device, -2, 2, seed);
    const Doubles at = s.to_doubles();
    const CapturedSlopes got = captured_slopes(f, tables, s);
    for (std::size_t i = 0; i < got.row.size(); ++i, ++compared)
      kinks += expect_captured(f, tables, at, tables.row[i], got.row[i]);
    for (std::size_t i = 0; i < got.distance.size(); ++i, ++compared)
      kinks += expect_captured(f, tables, at, tables.distance[i], got.distance[i]);
    kinks += expect_captured(f, tables, at, tables.factor, got.factor[0]), ++compared;
  }
  EXPECT_LT(kinks, compared / 5);
}

TEST(DerivativesOfRandomFunctions, OfWhatTheyCapture) { expect_captures(Device::cpu(), 105); }

TEST(DerivativesOfRandomFunctions, OfWhatTheyCaptureOnOtherDevices) {
  for (const Device device : test::devices())
    if (device != Device::cpu()) expect_captures(device, device == Device::sim() ? 6 : 105);
}

}  // namespace
}  // namespace tegula::derivative_test
