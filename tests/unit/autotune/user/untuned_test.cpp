// Values of tune() that the cost model chooses for calls that nobody has tuned.
#include "autotune/user/untuned.h"

#include <gmock/gmock.h>

#include <thread>

#include "autotune/cost/time_of.h"
#include "autotune/matmul/work.h"
#include "autotune/user/traced_work.h"
#include "support/env.h"
#include "tegula/prepare.h"
#include "tegula/tegula.h"
#include "tests/unit/autotune/matmul_problems.h"

namespace tegula::autotune::untuned_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DType kBf16 = DType::bf16, kF32 = DType::f32;

Tensor of(const Dims& shape, DType type, Device device = Device::cpu()) {
  return described(shape, type, device);
}

auto eight_lines() {
  return kernel("eight_lines", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    const int BM = tune("BM", {64, 128, 256}), BN = tune("BN", {64, 128, 192, 256}),
              BK = tune("BK", {32, 64, 128});
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

auto column_sum() {
  return kernel("column_sum", [](In<f32, 2> x, Out<f32, 1> y) {
    const int rows = tune("ROWS", {16, 64, 256}), columns = tune("COLUMNS", {8, 32, 128, 1024});
    for (auto c : grid(y, columns)) {
      auto total = zeros<f32>(columns);
      for (auto r : steps(x.rows(), rows)) total += sum(x(r, c), axis(0));
      y(c) = total;
    }
  });
}

template <class K, class... T>
dsl::TunedChoice choice_of(const K& k, const T&... tensors) {
  const auto args = K::pack(tensors...);
  auto choice = choose_untuned(k.instance(), args, Device::cpu());
  EXPECT_TRUE(choice);
  return choice.value_or(dsl::TunedChoice{});
}

struct Shape {
  std::int64_t m, n, k;
};

template <class K>
dsl::TunedChoice product_choice(const K& k, const Shape& s) {
  return choice_of(k, of({s.m, s.k}, kBf16), of({s.k, s.n}, kBf16), of({s.m, s.n}, kBf16));
}

/// The tiles of autotune/winners and of bench/results/sweeps/2026-11-25-h100-tuned.jsonl.
TEST(Untuned, LargeProductsTakeTheTilesThatWereMeasuredFastest) {
  for (const Shape& s : {Shape{2048, 2048, 2048}, Shape{4096, 4096, 4096}, Shape{8192, 8192, 8192},
                         Shape{4096, 14336, 4096}, Shape{8192, 4096, 14336}})
    EXPECT_EQ(str(product_choice(eight_lines(), s).values), "BK=64 BM=128 BN=256")
        << s.m << "x" << s.n << "x" << s.k;
}

/// Rows of 6000 bytes split lines, so that each tile requests more of them; neighbouring tiles then
/// load what they share once.
TEST(Untuned, OperandsWithSplitLinesAreMulticast) {
  for (const Shape& s : {Shape{3000, 3000, 3000}, Shape{4104, 4104, 4104}, Shape{5000, 3000, 2056}})
    EXPECT_EQ(product_choice(eight_lines(), s).preferred, PlanPatch{.multicast = true})
        << product_choice(eight_lines(), s).why;
  const auto decided = eight_lines().prefer({.multicast = false});
  EXPECT_EQ(product_choice(decided, {3000, 3000, 3000}).preferred, PlanPatch());
  EXPECT_EQ(product_choice(eight_lines(), {16, 4096, 4096}).preferred, PlanPatch());
}

TEST(Untuned, PlanFieldsThatAPassRejectsAreDropped) {
  const auto k = eight_lines().with({{"BM", 64}, {"BN", 64}, {"BK", 64}});
  const auto args = k.pack(of({256, 256}, kBf16), of({256, 256}, kBf16), of({256, 256}, kBf16));
  const auto accepted = [&](const PlanPatch& preferred) {
    return accepted_fields(k.instance(), preferred, args, Device::sim());
  };
  EXPECT_EQ(accepted({.multicast = true}), PlanPatch{.multicast = true});
  EXPECT_EQ(accepted({.stages = 3}), PlanPatch{.stages = 3});
  EXPECT_EQ(accepted({.stages = 4000}), PlanPatch()) << "no room in shared memory";
  EXPECT_EQ(accepted({}), PlanPatch());
}

TEST(Untuned, SmallProductsTakeSmallTiles) {
  const Tuning few = product_choice(eight_lines(), {16, 4096, 4096}).values;
  EXPECT_EQ(few.at("BM"), 64);
  EXPECT_EQ(few.at("BN"), 64);
  EXPECT_EQ(product_choice(eight_lines(), {130, 5120, 13824}).values.at("BM"), 64);
}

/// Returns the estimate for the eight lines with these tiles.
double traced_cycles(const Shape& s, int bm, int bn, int bk) {
  const auto k = eight_lines().with({{"BM", bm}, {"BN", bn}, {"BK", bk}});
  const auto args = k.pack(of({s.m, s.k}, kBf16), of({s.k, s.n}, kBf16), of({s.m, s.n}, kBf16));
  dsl::TraceResult trace = k.instance().trace(k.instance().signature(args));
  const ir::Plan plan = plan_of(trace.kernel);
  return cycles_of(work_of(trace.kernel, plan, args), host_profile());
}

TEST(TracedWork, AgreesWithTheClosedFormOfProducts) {
  const ir::Target target = ir::Target::of_capability(host_profile().capability);
  for (const Shape& s : {Shape{2048, 2048, 2048}, Shape{8192, 8192, 8192}, Shape{3000, 3000, 3000},
                         Shape{1000, 2056, 1096}, Shape{512, 512, 8192}})
    for (const auto& [bm, bn] : {std::pair(128, 256), {128, 192}, {64, 256}, {64, 64}}) {
      const MatmulProblem problem = test::packed(s.m, s.n, s.k);
      MatmulConfig config{.bm = bm, .bn = bn, .bk = 64};
      config.stages = 4;
      const double closed = cycles_of(work_of(problem, config, target), host_profile());
      EXPECT_NEAR(traced_cycles(s, bm, bn, 64) / closed, 1, 0.05)
          << s.m << "x" << s.n << "x" << s.k << " " << config.str();
    }
}

TEST(Untuned, ColumnSumsReadWholeLinesInAllSms) {
  const auto choice = choice_of(column_sum(), of({8192, 8192}, kF32), of({8192}, kF32));
  EXPECT_EQ(str(choice.values), "COLUMNS=32 ROWS=256") << choice.why;
}

TEST(Untuned, RowsFitRegisters) {
  const auto k = kernel("rows", [](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto r : grid(rows(y), tune("ROWS", {16, 8, 4, 1}))) {
      const auto v = cast<f32>(x(keep(r), all)), e = exp(v - max(v, axis(1), keepdims));
      y(keep(r), all) = e / sum(e, axis(1), keepdims);
    }
  });
  const auto rows_for = [&](std::int64_t columns) {
    return choice_of(k, of({4096, columns}, kBf16), of({4096, columns}, kBf16)).values.at("ROWS");
  };
  EXPECT_THAT(rows_for(1000), ::testing::AnyOf(4, 8));
  EXPECT_EQ(rows_for(16384), 1);
}

TEST(Untuned, DefaultsOfTheAuthorAndGivenValuesStay) {
  const auto k = kernel("eight_lines", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    const int BM = tune("BM", {64, 128, 256}, 256), BN = tune("BN", {64, 128, 192, 256}, 64),
              BK = tune("BK", {32, 64, 128});
    for (auto [m, n] : grid(C, BM, BN)) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
  const Tuning chosen = product_choice(k, {4096, 4096, 4096}).values;
  EXPECT_EQ(chosen.at("BM"), 256);
  EXPECT_EQ(chosen.at("BN"), 64);
  const auto given = eight_lines().with({{"BM", 64}, {"BK", 32}});
  EXPECT_EQ(str(product_choice(given, {4096, 4096, 4096}).values), "BK=32 BM=64 BN=256");
  const auto all = k.with({{"BK", 32}});
  const auto args = all.pack(of({64, 64}, kBf16), of({64, 64}, kBf16), of({64, 64}, kBf16));
  EXPECT_FALSE(choose_untuned(all.instance(), args, Device::cpu())) << "nothing is open";
}

/// Returns C of an untuned call, and the values that it ran with.
std::pair<std::vector<double>, std::string> result_on(Device device) {
  const auto k = eight_lines();
  const Tensor A = Tensor::normal({96, 160}, kBf16, 0, 1, 1, device),
               B = Tensor::normal({160, 192}, kBf16, 0, 1, 2, device),
               C = Tensor::zeros({96, 192}, kBf16, device);
  k(A, B, C);
  const std::string text = k.explain();
  return {C.to_doubles(), text.substr(0, text.find('\n'))};
}

TEST(Untuned, DevicesOfOneTargetChooseAlike) {
  const auto [cpu, on_cpu] = result_on(Device::cpu());
  const auto [sim, on_sim] = result_on(Device::sim());
  EXPECT_EQ(on_cpu, on_sim);
  EXPECT_THAT(on_cpu, HasSubstr("tune(): BK="));
}

TEST(Untuned, ThreadsOfOneKernelAndOtherKernelsChooseAlike) {
  const auto k = eight_lines();
  std::string found[2];
  {
    std::vector<std::jthread> threads;
    for (std::string& text : found)
      threads.emplace_back([&] { text = product_choice(k, {3000, 3000, 3000}).why; });
  }
  EXPECT_EQ(found[0], found[1]);
  product_choice(k, {16, 4096, 4096});
  EXPECT_EQ(product_choice(k, {3000, 3000, 3000}).why, found[0]) << "after other shapes";
  EXPECT_EQ(product_choice(eight_lines(), {3000, 3000, 3000}).why, found[0]);
}

TEST(Untuned, ExplainShowsTheRankingAndItsLimits) {
  const std::string why = product_choice(eight_lines(), {8192, 8192, 8192}).why;
  EXPECT_THAT(why, AllOf(HasSubstr("tune(): BK=64 BM=128 BN=256, the shortest estimate of 36"),
                         HasSubstr("limited by tensor cores: 2048 tiles, 1 CTAs on an SM, wgmma")));
  EXPECT_EQ(std::ranges::count(why, '\n'), 6) << "the five shortest";
}

TEST(Untuned, LargeSpacesAreSearchedByFewTraces) {
  static int traces = 0;
  const auto k = kernel("many", [](In<f32, 1> x, Out<f32, 1> y) {
    ++traces;
    int block = 32;
    for (const char* name : {"A", "B", "C", "D"}) block *= tune(name, {1, 2, 4, 8, 16});
    for (auto i : grid(y, std::min(block, 8192))) y(i) = x(i) + 1.0f;
  });
  traces = 0;
  const Tuning first = choice_of(k, of({1 << 24}, kF32), of({1 << 24}, kF32)).values;
  EXPECT_LE(traces, static_cast<int>(kMaxCompared) + 1);  // one to try all passes
  int block = 32;
  for (const auto& [name, value] : first) block *= value;
  EXPECT_GE(block, 512) << str(first);
  const int of_first = std::exchange(traces, 0);
  choice_of(k, of({1 << 20}, kF32), of({1 << 20}, kF32));
  EXPECT_LT(traces, of_first) << "shapes of one signature share traces";
}

TEST(Untuned, RefusedValuesAndConditionalNamesAreSkipped) {
  const auto k = kernel("conditional", [](In<f32, 1> x, Out<f32, 1> y) {
    const bool is_wide = tune("WIDE", {0, 1}) == 1;
    const int block = is_wide ? tune("BLOCK", {2048, 0}) : tune("NARROW", {1, 2});
    for (auto i : grid(y, block)) y(i) = x(i) + 1.0f;
  });
  EXPECT_EQ(str(choice_of(k, of({1 << 24}, kF32), of({1 << 24}, kF32)).values),
            "BLOCK=2048 WIDE=1");
}

TEST(Untuned, CapturesOptionalViewsAndLoopsOfAllKindsAreEstimated) {
  const Tensor table = Tensor::integers({64}, DType::i32, 0, 3, 1, Device::cpu());
  const auto k = kernel("mixed", [table](In<f32, 2> x, std::optional<In<f32, 1>> bias,
                                         Scalar<i32> turns, Out<f32, 2> y) {
    const bool has_table = tune("TABLE", {0, 1}) == 1;
    for (auto [r, c] : grid(y, tune("ROWS", {4, 16}), 32)) {
      Tile v = cast<f32>(x(r, c));
      if (bias) v = v + (*bias)(c)(none, all);
      if (has_table) v = v + cast<f32>(view<i32, 1>(table)(c))(none, all) * 0.0f;
      for (auto i : steps(turns, 1)) v = v + cast<f32>(i.first()) * 0.0f;
      Tile n = 0;
      while_([&] { return n < turns; }, [&] { n = n + 1; });
      if_(n > 1, [&] { v = v * 2.0f; });
      y(r, c) = v;
    }
  });
  const Tensor x = Tensor::full({64, 64}, 3, kF32, Device::cpu()), y = x.clone();
  for (const Tensor& bias : {Tensor(), Tensor::full({64}, 1, kF32, Device::cpu())}) {
    k(x, bias, 2, y);
    EXPECT_EQ(y.to_doubles(), std::vector<double>(64 * 64, bias.defined() ? 8 : 6));
    EXPECT_THAT(k.explain(), HasSubstr("the shortest estimate of 4 combinations"));
  }
}

TEST(Untuned, KernelsWithGridBarriersAreEstimated) {
  const auto k = kernel("meeting", [](InOut<f32, 1> x) {
    const int block = tune("BLOCK", {16, 64});
    for (auto i : grid(x, block)) x(i) = x(i) + 1.0f;
    grid_barrier();
    for (auto i : grid(x, block)) x(i) = x(i) * 2.0f;
  });
  const Tensor x = Tensor::full({256}, 3, kF32, Device::cpu());
  k(x);
  EXPECT_EQ(x.to_doubles(), std::vector<double>(256, 8));
  EXPECT_THAT(k.explain(), HasSubstr("the shortest estimate of 2 combinations"));
}

TEST(Untuned, TuningStartsFromTheChoice) {
  const auto k = kernel("adding", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, tune("BLOCK", {16, 1024}))) y(i) = x(i) + 1.0f;
  });
  const Tensor x = Tensor::zeros({8192}, kF32, Device::sim()), y = x.clone();
  Env none = env();
  none.cache = "off";
  const EnvOverride scope(none);
  std::vector<std::string> lines;
  TuneOptions options;
  options.progress = [&](const std::string& line) { lines.push_back(line); };
  options.again = true;
  k.tune(options, x, y);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines[0], HasSubstr("the reference is " + str(choice_of(k, x, y).values)));
}

}  // namespace
}  // namespace tegula::autotune::untuned_test
