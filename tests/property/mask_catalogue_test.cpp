// The library of masks against their definitions in plain C++: the class each is found to be in,
// and how many of the blocks that are uniform the analysis decides.
#include <gtest/gtest.h>

#include <chrono>
#include <iomanip>
#include <iostream>

#include "tegula/error.h"
#include "tests/property/mask_catalogue.h"
#include "tools/workload/mask_ranges.h"
#include "tools/workload/traced_mask.h"

namespace tegula::mask_catalogue_test {
using namespace kernels;
namespace {

using catalogue::Case;
using catalogue::kLength;
using ir::BlockCoverage;
using ir::MaskBlock;

BlockCoverage brute(const Case& c, const MaskBlock& b) {
  bool all = true, any = false;
  for (auto q = b.q0; q < b.q1; ++q)
    for (auto kv = b.kv0; kv < b.kv1; ++kv) {
      const bool seen = c.want(static_cast<int>(q), static_cast<int>(kv));
      all = all && seen;
      any = any || seen;
    }
  return all ? BlockCoverage::Full : any ? BlockCoverage::Partial : BlockCoverage::Empty;
}

struct Share {
  int decided = 0, uniform = 0;
  double percent() const { return uniform ? 100.0 * decided / uniform : 100; }
};

/// True unless the claim is wrong.
bool count(BlockCoverage claim, BlockCoverage truth, Share& share) {
  share.uniform += truth != BlockCoverage::Partial;
  share.decided += truth != BlockCoverage::Partial && claim == truth;
  return claim == BlockCoverage::Partial || claim == truth;
}

class Catalogue : public testing::TestWithParam<Case> {};

TEST_P(Catalogue, IsClassifiedAndDecided) {
  const Case& c = GetParam();
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto us = [&](auto start) {
    return std::chrono::duration<double, std::micro>(now() - start).count();
  };
  auto start = now();
  const TracedMask traced = trace_mask(c.mask);
  const double tracing = us(start);
  start = now();
  const ir::MaskClosedForm form = ir::solve_mask(traced.expr);
  const double solving = us(start);
  ir::MaskBlocks blocks(traced.expr);
  MaskRanges ranges(form);
  Share by_block, by_range;
  double covering = 0, classifying = 0;
  int tiles = 0, count_blocks = 0;
  for (const auto& [bm, bn] : {std::pair{128, 128}, {64, 96}, {48, 16}})
    for (int q = 0; q < kLength; q += bm, ++tiles) {
      start = now();
      const KvVisibility cover = ranges.cover({0, 0, q, q + bm, kLength}, traced.params());
      covering += us(start);
      for (int kv = 0; kv < kLength; kv += bn, ++count_blocks) {
        const MaskBlock b{0, 0, q, q + bm, kv, kv + bn};
        const BlockCoverage truth = brute(c, b);
        start = now();
        const BlockCoverage claim = blocks.classify(b, traced.params());
        classifying += us(start);
        ASSERT_TRUE(count(claim, truth, by_block)) << "q " << q << ", kv " << kv;
        ASSERT_TRUE(count(cover.of(kv, kv + bn), truth, by_range)) << "q " << q << ", kv " << kv;
      }
    }
  EXPECT_EQ(name(form.mask_class), c.mask_class) << form.reason << "\n" << form.expr.str();
  EXPECT_GT(by_block.uniform, 50) << "a share of nothing says nothing";
  EXPECT_GE(by_block.percent(), c.blocks);
  EXPECT_GE(by_range.percent(), c.ranges);
  std::cout << std::fixed << std::setprecision(1) << std::left << std::setw(20) << c.name << " "
            << name(form.mask_class) << "  " << by_block.uniform << " uniform blocks, decided "
            << by_block.percent() << " %, by ranges " << by_range.percent() << " %; us: trace "
            << tracing << ", solve " << solving << ", a query tile " << covering / tiles
            << ", a block " << classifying / count_blocks << "\n";
}

/// Every pair: what is said of blocks leaves out what a mask does within those it cuts.
TEST_P(Catalogue, IsItsDefinition) {
  const Case& c = GetParam();
  const auto plane = kernel("mask_plane", [mask = c.mask](Out<u8, 2> seen) {
    for (auto [q, kv] : grid(seen, 64, 64))
      seen(q, kv) =
          where(mask(full<i32>(0), full<i32>(0), expand(q.indices(), 1), expand(kv.indices(), 0)),
                full<u8>(1), full<u8>(0));
  });
  const Tensor out = Tensor::empty({kLength, kLength}, DType::u8, Device::cpu());
  plane(out);
  const std::vector<u8> seen = out.to_vector<u8>();
  for (int q = 0, i = 0; q < kLength; ++q)
    for (int kv = 0; kv < kLength; ++kv, ++i)
      ASSERT_EQ(seen[static_cast<std::size_t>(i)] != 0, c.want(q, kv))
          << "q " << q << ", kv " << kv;
}

INSTANTIATE_TEST_SUITE_P(Masks, Catalogue, testing::ValuesIn(catalogue::cases(Device::cpu())),
                         [](const auto& info) { return std::string(info.param.name); });

/// The claims of the catalogue in research/attention.md about bits, and whether a list can say more
/// than a range of keys.
TEST(MaskClass, BitsAndSumsThatKvPicks) {
  const Tensor t = Tensor::zeros({kLength}, DType::i32, Device::cpu());
  const auto at = [&t](const Tile& i) { return view<i32, 1>(t)(i); };
  struct Of {
    const char* mask_class;
    bool tells_blocks;
    Mask mask;
  };
  const std::array masks{
      // A row of bits for each query: blocks chosen by a router, a tree's ancestors.
      Of{"D", false, [&](Tile, Tile, Tile q, Tile kv) { return ((at(q) >> (kv / 96)) & 1) != 0; }},
      Of{"D", false,
         [&](Tile, Tile, Tile q, Tile kv) { return (at(q) & (1 << (kv % 32))) != 0 && q >= kv; }},
      Of{"D", false,
         [&](Tile, Tile, Tile q, Tile kv) {
           return ((at(q * 8 + kv / 32) >> (kv % 32)) & 1) != 0;
         }},
      // Combined with a condition that distinguishes blocks.
      Of{"D", true,
         [&](Tile, Tile, Tile q, Tile kv) {
           return ((at(q) >> (kv / 96)) & 1) != 0 && q % 24 >= kv % 24;
         }},
      Of{"D", true,
         [&](Tile, Tile, Tile q, Tile kv) {
           return ((at(q) >> (kv / 96)) & 1) != 0 && at(q) == at(kv);
         }},
      Of{"D", true, [&](Tile, Tile, Tile q, Tile kv) { return kv * kv <= q; }},
      // Bits of keys alone, or of queries alone, are tables.
      Of{"T", true, [&](Tile, Tile, Tile, Tile kv) { return ((at(kv) >> 3) & 1) != 0; }},
      Of{"T", true,
         [&](Tile, Tile, Tile, Tile kv) { return ((at(kv / 32) >> (kv % 32)) & 1) != 0; }},
      Of{"T", true,
         [&](Tile, Tile, Tile q, Tile kv) { return ((at(q) >> 3) & 1) != 0 || q >= kv; }},
      Of{"T", true, [&](Tile, Tile, Tile q, Tile kv) { return q < kv + at(kv); }},
      Of{"C", true, [&](Tile, Tile, Tile q, Tile kv) { return (kv & 3) == (q & 3); }},
      Of{"G", true, [&](Tile, Tile, Tile q, Tile kv) { return kv / 24 * 32 + kv % 24 <= q; }},
      Of{"G", true, [&](Tile, Tile, Tile q, Tile kv) { return kv / 3 + kv / 5 <= q; }},
      Of{"I", false, [&](Tile, Tile, Tile q, Tile kv) { return kv / 24 * 24 + kv % 24 <= q; }},
      Of{"I", false, [&](Tile, Tile, Tile q, Tile kv) { return (kv >> 4) * 16 + (kv & 15) <= q; }},
  };
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const ir::MaskClosedForm form = ir::solve_mask(trace_mask(masks[i].mask).expr);
    EXPECT_EQ(name(form.mask_class), masks[i].mask_class) << i << ": " << form.reason;
    EXPECT_EQ(form.tells_blocks, masks[i].tells_blocks) << i << ": " << form.reason;
  }
}

TEST(MortonNeighbourhood, RejectsSidesThatAreNotPowersOfTwo) {
  EXPECT_NO_THROW(masks::morton_neighbourhood(1 << 15, 3));
  for (const int side : {0, 24, 1 << 16}) {
    const auto refused = [&] { masks::morton_neighbourhood(side, 3); };
    EXPECT_THROW(refused(), CompileError) << side;
  }
}

}  // namespace
}  // namespace tegula::mask_catalogue_test
