// The space of a GEMM's configurations: what is enumerated obeys every rule, is named once, and
// comes back from its text; every rule has something to refuse.
#include "autotune/matmul/space.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "autotune/matmul/work.h"
#include "tests/unit/autotune/matmul_problems.h"

namespace tegula::autotune::matmul_space_test {
namespace {

using tegula::test::drawn_problems;
using tegula::test::packed;

Limits limits(int capability = 90) {
  DeviceProfile gpu = host_profile();
  gpu.capability = capability;
  return limits_of(gpu);
}

TEST(MatmulSpace, EnumeratedConfigurationsAreLegal) {
  int all = 0;
  for (const int capability : {80, 90})
    for (const MatmulProblem& p : drawn_problems(200)) {
      const Limits gpu = limits(capability);
      std::set<std::string> texts;
      std::set<std::uint64_t> hashes;
      const int found = enumerate(matmul_space(), p, gpu, [&](const MatmulConfig& c) {
        const std::vector<Reason> reasons = why_not(matmul_space(), p, c, gpu);
        EXPECT_TRUE(reasons.empty()) << text_of(p) << "\n" << c.str() << ": " << reasons[0].rule;
        EXPECT_EQ(matmul_space().canonical(c, p, gpu), c) << text_of(p) << "\n" << c.str();
        EXPECT_EQ(parse<MatmulConfig>(text_of(c)), c) << text_of(c);
        EXPECT_TRUE(texts.insert(text_of(c)).second) << text_of(c) << " twice";
        hashes.insert(hash_of(c));
      });
      EXPECT_GT(found, 0) << text_of(p);
      EXPECT_LT(found, kMaxCandidates) << text_of(p);
      EXPECT_EQ(hashes.size(), texts.size()) << "two configurations of one hash";
      EXPECT_EQ(parse<MatmulProblem>(text_of(p)), p) << text_of(p);
      all += found;
    }
  std::printf("%d configurations of 400 problems\n", all);
}

/// A rule that refuses nothing is none.
TEST(MatmulSpace, EveryRuleRefuses) {
  std::map<std::string_view, int> broken;
  for (const int capability : {80, 90})
    for (const MatmulProblem& p : drawn_problems(200)) {
      const auto ignore = [](const MatmulConfig&) {};
      const Limits gpu = limits(capability);
      Enumeration walk(matmul_space(), p, gpu, ignore);
      walk.run();
      for (std::size_t i = 0; i < matmul_rules().size(); ++i)
        broken[matmul_rules()[i].name] += walk.rejected()[i];
    }
  EXPECT_EQ(broken.size(), matmul_rules().size()) << "two rules of one name";
  for (const auto& [rule, count] : broken) EXPECT_GT(count, 0) << rule;
  for (std::size_t i = 1; i < matmul_rules().size(); ++i)
    EXPECT_LE(matmul_rules()[i - 1].last_axis, matmul_rules()[i].last_axis) << "not in order";
}

std::string first_reason(const MatmulProblem& p, const MatmulConfig& c) {
  for (const Reason& reason : why_not(matmul_space(), p, c, limits()))
    if (reason.severity == Severity::refused) return std::string(reason.text);
  return "";
}

TEST(MatmulSpace, ExplainsRejections) {
  const MatmulProblem p = packed(4096, 4096, 4096);
  EXPECT_EQ(first_reason(p, {.bm = 128, .bn = 128, .bk = 64, .stages = 4}), "");
  EXPECT_EQ(first_reason(p, {.bm = 96, .bn = 128, .stages = 4}),
            "no matrix instruction has so many rows");
  EXPECT_EQ(first_reason(p, {.bm = 128, .bn = 256, .stages = 6}),
            "the ring does not fit shared memory");
  EXPECT_EQ(
      first_reason(p, {.bm = 64, .bn = 64, .split = SplitK::cluster, .parts = 3, .stages = 4}),
      "a cluster has 2, 4 or 8 CTAs, which divide a power of two of rows");
  EXPECT_EQ(first_reason(packed(16, 4096, 4096), {.bm = 16,
                                                  .bn = 192,
                                                  .split = SplitK::cluster,
                                                  .parts = 8,
                                                  .swap_ab = true,
                                                  .stages = 4}),
            "a cluster has 2, 4 or 8 CTAs, which divide a power of two of rows");
  MatmulProblem batched = p;
  batched.batch = 3, batched.is_batched = true;
  EXPECT_EQ(first_reason(batched, {.split = SplitK::partials, .parts = 2, .stages = 4}),
            "k is divided for single products of wgmma only");
}

/// Configurations that compile alike are one.
TEST(MatmulSpace, Canonical) {
  const MatmulProblem p = packed(64, 4096, 4096);
  const auto canonical = [&](const MatmulConfig& c) {
    return matmul_space().canonical(c, p, limits()).str();
  };
  EXPECT_EQ(canonical({.split = SplitK::cluster, .parts = 1}), "128x256x64");
  EXPECT_EQ(canonical({.parts = 4}), "128x256x64");
  EXPECT_EQ(canonical({.multicast = Multicast::b}), "128x256x64") << "no tile below";
  const MatmulConfig parts{.split = SplitK::partials, .parts = 2, .multicast = Multicast::b};
  EXPECT_EQ(canonical(parts), "128x256x64 split_k 2 multicast b") << "parts share rows of A";
  MatmulConfig odd = parts;
  odd.bm = 136, odd.bn = 192, odd.swap_ab = true;
  EXPECT_EQ(canonical(odd), "136x192x64 split_k 2 swap_ab") << "no halves in atoms of 8 rows";
  EXPECT_EQ(canonical({.operands = OperandPath::direct}), "128x256x64") << "TMA takes them";
}

/// A choice is to cost a launch or two: 20 us for 300 candidates on a host of its own.
TEST(MatmulSpace, TimeOfAChoice) {
  using Clock = std::chrono::steady_clock;
  for (const MatmulProblem& p : {packed(4096, 4096, 4096), packed(1000, 2056, 1096),
                                 packed(64, 4096, 4096), packed(512, 512, 8192)}) {
    double least = 1e9;
    int candidates = 0;
    for (int i = 0; i < 200; ++i) {
      const auto start = Clock::now();
      candidates = choose(p, matmul_space(), host_profile()).candidates;
      least =
          std::min(least, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    std::printf("%ldx%ldx%ld: %d candidates in %.1f us\n", static_cast<long>(p.m),
                static_cast<long>(p.n), static_cast<long>(p.k), candidates, least);
    EXPECT_LT(least, 2000);
  }
}

// ---- work ---------------------------------------------------------------------------------------

TEST(MatmulWork, RequestsOfLines) {
  const ir::Target target = limits().target;
  const MatmulConfig tile{.bm = 128, .bn = 128, .bk = 64, .stages = 4};
  const auto lines = [&](const MatmulProblem& p, const MatmulConfig& c) {
    return work_of(p, c, target).l2_lines;
  };
  EXPECT_EQ(lines(packed(4096, 4096, 4096), tile), 128 + 128);
  EXPECT_EQ(lines(packed(4096, 4096, 4096 + 32), tile), 128 * 1.5 + 128) << "half the rows of A";
  EXPECT_EQ(lines(packed(4096, 4096 + 8, 4096), tile),
            128 + 64 * std::ceil(4104. / 33 * 2 / 128) * 2)
      << "rows of B across lines";
  MatmulConfig shared = tile;
  shared.multicast = Multicast::b;
  EXPECT_EQ(lines(packed(4096, 4096, 4096), shared), 128 + 64) << "half of B by each of a pair";
  EXPECT_EQ(lines(packed(33, 4096, 4096), tile), 33 + 128) << "none for rows outside";
}

TEST(MatmulWork, Bytes) {
  const ir::Target target = limits().target;
  MatmulProblem p = packed(512, 512, 512);
  const MatmulConfig tile{.bm = 128, .bn = 128, .bk = 64, .stages = 4};
  const Work one = work_of(p, tile, target);
  EXPECT_EQ(one.order.rows * one.order.row_bytes, 512 * 512 * 2);
  EXPECT_EQ(one.order.columns * one.order.column_bytes, 512 * 512 * 2);
  EXPECT_EQ(one.tiles * one.order.result_bytes, 512 * 512 * 2);
  EXPECT_EQ(one.tiles, 16);
  EXPECT_EQ(one.trips, 8);
  EXPECT_EQ(one.smem_bytes, 128 * (128 + 2 * 128)) << "each warpgroup reads all columns";
  p.batch = 48, p.is_batched = true;
  EXPECT_EQ(work_of(p, tile, target).order.matrices, 48);
  EXPECT_EQ(work_of(p, tile, target).order.row_bytes, one.order.row_bytes);
  EXPECT_EQ(work_of(p, tile, target).tiles, 48 * 16);
  MatmulProblem odd = packed(64, 65537, 64);
  EXPECT_EQ(work_of(odd, tile, target).repack_bytes, 2 * 2.0 * 65537 * 64) << "read and written";
  MatmulConfig direct = tile;
  direct.operands = OperandPath::direct;
  EXPECT_EQ(work_of(odd, direct, target).repack_bytes, 0);
  EXPECT_EQ(work_of(odd, direct, target).single_elements, (128 + 128) * 64);
}

/// A persistent kernel has no memory to stage single elements in, which rows of odd widths need.
TEST(MatmulWork, SingleElements) {
  const ir::Target target = limits().target;
  const MatmulConfig staged{.bm = 64, .bn = 128, .bk = 64, .stages = 4},
      persistent{.bm = 64, .bn = 256, .bk = 64, .pingpong = true};
  const MatmulProblem odd = packed(64, 65537, 64, "NT");
  EXPECT_TRUE(work_of(odd, persistent, target).stores_elements);
  EXPECT_FALSE(work_of(odd, staged, target).stores_elements);
  EXPECT_FALSE(work_of(packed(64, 65538, 64, "NT"), persistent, target).stores_elements);
}

// ---- time ---------------------------------------------------------------------------------------

double cycles(const MatmulProblem& p, const MatmulConfig& c, const DeviceProfile& gpu) {
  return cycles_of(work_of(p, c, limits_of(gpu).target), gpu);
}

/// Each rate has a say: a slower one costs time on some kernel.
TEST(CostModel, EveryRateCounts) {
  const std::pair<MatmulProblem, MatmulConfig> kernels[] = {
      {packed(4096, 4096, 4096), {.bm = 128, .bn = 256, .bk = 64, .stages = 4}},
      {packed(4096, 4096, 4096), {.bm = 128, .bn = 64, .bk = 64, .stages = 4}},
      {packed(4096, 4096, 4096), {.bm = 128, .bn = 128, .bk = 64, .pingpong = true}},
      {packed(4096, 4096, 4096), {.bn = 128, .multicast = Multicast::b, .pingpong = true}},
      {packed(3000, 3000, 3000), {.bm = 192, .bn = 192, .stages = 4, .multicast = Multicast::b}},
      {packed(1000, 2056, 1096), {.bm = 88, .bn = 192, .bk = 64, .swap_ab = true, .stages = 6}},
      {packed(64, 65537, 64), {.bm = 64, .bn = 64, .bk = 64, .operands = OperandPath::direct}},
      {packed(64, 65537, 64), {.bm = 64, .bn = 64, .bk = 64, .stages = 3}},
      {packed(64, 65537, 64), {.bm = 64, .bn = 256, .bk = 64, .pingpong = true}},
      {packed(128, 512, 8192), {.bm = 128, .bn = 256, .bk = 64, .stages = 4}},
      {packed(16, 4096, 4096),
       {.bm = 16, .bn = 64, .split = SplitK::cluster, .parts = 4, .stages = 4}},
      {packed(512, 512, 8192),
       {.bm = 128, .bn = 64, .split = SplitK::partials, .parts = 4, .stages = 8}},
      {packed(512, 512, 8192),
       {.bm = 128, .bn = 128, .split = SplitK::stream, .parts = 132, .stages = 7}}};
  Work threads;
  threads.engine = MmaEngine::none;
  threads.trips = 4, threads.tiles = 5000, threads.ctas_per_sm = 4;
  threads.l2_lines = 64, threads.thread_ops = 50000, threads.exchanges = 2;
  int rates = 0;
  CostRates::each_field(host_profile().cost, [&](const char*, const double&) { ++rates; });
  for (int i = 0; i < rates; ++i) {
    bool counts = false;
    std::string name;
    for (const double factor : {0.5, 2.0}) {
      DeviceProfile other = host_profile();
      int at = 0;
      CostRates::each_field(other.cost, [&](const char* field, double& rate) {
        if (at++ == i) rate *= factor, name = field;
      });
      for (const auto& [p, c] : kernels)
        counts |= std::abs(cycles(p, c, other) / cycles(p, c, host_profile()) - 1) > 1e-4;
      counts |= std::abs(cycles_of(threads, other) / cycles_of(threads, host_profile()) - 1) > 1e-4;
    }
    EXPECT_TRUE(counts) << name;
  }
}

}  // namespace
}  // namespace tegula::autotune::matmul_space_test
