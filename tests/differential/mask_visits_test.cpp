// Checks the blocks that attention visits under every mask of the library, and its results there.
#include <iomanip>
#include <iostream>
#include <numeric>

#include "ir/analysis/mask/blocks.h"
#include "tests/differential/attention_expected.h"
#include "tests/property/mask_catalogue.h"
#include "tests/property/mask_lambdas.h"
#include "tools/workload/visited_blocks.h"

namespace tegula::mask_visits_test {
using namespace kernels;
namespace {

using catalogue::Case;
using test::AttentionInputs;

constexpr std::int64_t kMaxLength = catalogue::kLength;

struct Visited {
  AttentionTileShape tiles;
  std::int64_t queries, keys;
  std::vector<std::vector<VisitedBlock>> rows;  ///< by tile of queries
};

Visited visited(const Mask& mask, Device device, AttentionTileShape tiles, std::int64_t queries,
                std::int64_t keys) {
  AttentionCall call;
  call.Q = Tensor::zeros({1, 1, queries, 1}, DType::bf16, device);
  call.K = Tensor::zeros({1, 1, keys, 1}, DType::bf16, device);
  call.V = call.K, call.O = call.Q;
  return {tiles, queries, keys, visited_blocks(AttentionHeuristics({.mask = mask}), call, tiles)};
}

struct Counts {
  std::int64_t cover = 0, visited = 0, partial = 0, masked = 0;
};

/// Classifies the pairs of queries [q0, q1) and keys [kv0, kv1).
ir::BlockCoverage coverage(const Case& c, std::int64_t q0, std::int64_t q1, std::int64_t kv0,
                           std::int64_t kv1) {
  bool all = true, any = false;
  for (std::int64_t q = q0; q < q1; ++q)
    for (std::int64_t kv = kv0; kv < kv1; ++kv) {
      const bool sees = c.want(static_cast<int>(q), static_cast<int>(kv));
      all = all && sees;
      any = any || sees;
    }
  return any ? all ? ir::BlockCoverage::Full : ir::BlockCoverage::Partial
             : ir::BlockCoverage::Empty;
}

/// Every visible pair is visited once, and what has no mask holds visible pairs only.
Counts check(const Case& c, const Visited& v) {
  Counts n;
  for (std::size_t m = 0; m < v.rows.size(); ++m) {
    const std::int64_t q0 = static_cast<std::int64_t>(m) * v.tiles.block_q,
                       q1 = std::min<std::int64_t>(v.queries, q0 + v.tiles.block_q);
    std::vector<int> times(static_cast<std::size_t>(v.keys));
    for (const VisitedBlock& s : v.rows[m]) {
      const std::int64_t end = s.first + v.tiles.block_kv, kv1 = std::min(v.keys, end);
      for (std::int64_t kv = s.first; kv < kv1; ++kv) ++times[static_cast<std::size_t>(kv)];
      const bool is_full =
          end <= v.keys && coverage(c, q0, q1, s.first, kv1) == ir::BlockCoverage::Full;
      EXPECT_TRUE(s.is_masked || is_full) << c.name << ": " << m << ", keys from " << s.first;
      n.visited += 1;
      n.masked += s.is_masked;
    }
    for (std::int64_t kv = 0; kv < v.keys; ++kv) {
      const int seen = coverage(c, q0, q1, kv, kv + 1) != ir::BlockCoverage::Empty;
      const int t = times[static_cast<std::size_t>(kv)];
      EXPECT_TRUE(seen <= t && t <= 1) << c.name << ": tile " << m << ", key " << kv << ": " << t;
    }
    for (std::int64_t kv = 0; kv < v.keys; kv += v.tiles.block_kv) {
      const std::int64_t kv1 = std::min(v.keys, kv + v.tiles.block_kv);
      const ir::BlockCoverage of = coverage(c, q0, q1, kv, kv1);
      n.cover += of != ir::BlockCoverage::Empty;
      n.partial += of == ir::BlockCoverage::Partial;
    }
  }
  return n;
}

class MaskVisits : public ::testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MaskVisits, ::testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(MaskVisits, AreThoseOfTheBestCover) {
  for (const Case& c : catalogue::cases(GetParam())) {
    const KvTraversal way({.mask = c.mask});
    std::cout << std::left << std::setw(20) << c.name << " " << c.mask_class << " "
              << (way.uses_block_list() ? "list " : "range") << std::right;
    for (const AttentionTileShape tiles : {AttentionTileShape{128, 128}, {128, 64}, {64, 32}}) {
      const Counts n = check(c, visited(c.mask, GetParam(), tiles, kMaxLength, kMaxLength));
      std::cout << "  " << tiles.block_q << "x" << tiles.block_kv << ": " << std::setw(3)
                << n.visited << " of " << std::setw(3) << n.cover << ", masks " << std::setw(3)
                << n.masked << " of " << std::setw(3) << n.partial;
      EXPECT_LE(static_cast<double>(n.visited), 1.05 * static_cast<double>(n.cover)) << c.name;
    }
    std::cout << "\n";
    // Lengths that no block divides.
    check(c, visited(c.mask, GetParam(), {64, 48}, 700, 650));
  }
}

TEST(MaskVisitsOfLambdas, HoldEveryVisiblePair) {
  std::mt19937 random(3);
  int listed = 0, with_gaps = 0;
  for (int i = 0; i < 600; ++i) {
    const auto [mask, sees] = test::random_mask(random, 3);
    const Case c{"random", mask, [&](int q, int kv) { return sees(q, kv); }, "", 0, 0};
    check(c, visited(mask, Device::cpu(), {16, 16}, 61, 87));
    const KvTraversal way({.mask = mask});
    listed += way.uses_block_list();
    with_gaps += way.text().find("closed ranges") != std::string::npos;
    if (HasFailure()) FAIL() << "mask " << i;
  }
  EXPECT_GT(listed, 5);
  EXPECT_GT(with_gaps, 20);
}

}  // namespace
}  // namespace tegula::mask_visits_test
