// Linear layouts: evaluation, inversion, text, and the constructors against the formulas of the
// instructions.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/layout_text.h"

namespace tegula::ir::layout_basics_test {
namespace {

template <class F>
void for_each_place(const LinearLayout& l, F f) {
  for (int b = 0; b < l.size(HwDim::Block); ++b)
    for (int w = 0; w < l.size(HwDim::Warp); ++w)
      for (int t = 0; t < l.size(HwDim::Lane); ++t)
        for (int r = 0; r < l.registers(); ++r) f(HardwareCoord{r, t, w, b});
}

/// Coverage, inverse and text of one layout.
void expect_laws(const LinearLayout& l) {
  SCOPED_TRACE(l.str());
  std::set<std::vector<int>> seen;
  std::int64_t places = 0;
  for_each_place(l, [&](const HardwareCoord& p) {
    const Dims i = l.apply(p);
    seen.insert({i.begin(), i.end()});
    const auto back = l.locate(i);
    ASSERT_TRUE(back);
    ASSERT_EQ(l.apply(*back), i);
    for (HwDim in : kIns) ASSERT_EQ((*back)[in] & static_cast<int>(l.free_bits(in)), 0);
    if (l.is_bijective()) {
      ASSERT_EQ(*back, p);
    }
    ++places;
  });
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()), l.cover().product());
  EXPECT_EQ(l.is_bijective(), static_cast<std::int64_t>(seen.size()) == places);
  EXPECT_TRUE(l.is_surjective());
  const auto parsed = LinearLayout::parse(l.str());
  ASSERT_TRUE(parsed) << parsed.reason();
  EXPECT_EQ(*parsed, l);
  EXPECT_EQ(parsed->str(), l.str());
  EXPECT_EQ(LinearLayout(l.spec()), l);
}

TEST(LinearLayout, SpellsTheAccumulatorOfMma) {
  EXPECT_EQ(mma_m16n8k16_acc({16, 8}, 1, 1).str(),
            "lin<16x8; reg=[(0,1),(8,0)]; lane=[(0,2),(0,4),(1,0),(2,0),(4,0)]>");
  EXPECT_EQ(wgmma_acc(64, 96).str(),
            "lin<64x96; reg=[(0,1),(8,0),(0,8),(0,16)]; lane=[(0,2),(0,4),(1,0),(2,0),(4,0)]; "
            "warp=[(16,0),(32,0)]; rep=[1*3]>");
  EXPECT_EQ(LinearLayout().str(), "lin<()>");
}

TEST(LinearLayout, TextRoundTripsOnly) {
  for (const char* bad :
       {"", "lin<", "lin<8", "lin<8>x", "lin<8; reg=[9]>", "lin<8; reg=[(1,2)]>", "lin<24>",
        "lin<24; rep=[0*5]>", "lin<8; rep=[1*3]>", "lin<8/4>", "lin<0>", "lin<8; rag=[1]>",
        "lin<24; rep=[0*1]>", "lin<8; reg=[-1]>", "lin<1x1x1x1x1x1x1>"}) {
    EXPECT_FALSE(LinearLayout::parse(bad)) << bad;
  }
  const auto spaced = LinearLayout::parse("lin< 24 x 8 ; lane=[ (0,1), 0 ]; rep=[ 0*3 ] >");
  ASSERT_TRUE(spaced) << spaced.reason();
  EXPECT_EQ(spaced->str(), "lin<24x8; lane=[(0,1),0]; rep=[0*3]>");
}

TEST(LinearLayout, AccumulatorsFollowTheFormula) {
  for (int n = 8; n <= 256; n += 8)
    for (int groups : {1, 2, 3, 4}) {
      const LinearLayout l = wgmma_acc(64 * groups, n, groups);
      ASSERT_EQ(l.registers(), n / 2);
      ASSERT_EQ(l.size(HwDim::Warp), 4 * groups);
      ASSERT_TRUE(l.is_exact());
      for_each_place(l, [&](const HardwareCoord& p) {
        const int g = p.lane >> 2, t = p.lane & 3, r = p.reg;
        const Dims want{16 * p.warp + g + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * t + (r & 1)};
        ASSERT_EQ(l.apply(p), want) << l.str();
      });
    }
}

TEST(LinearLayout, OperandsFollowTheFormulas) {
  for (int bits : {8, 16, 32}) {
    const int k = 256 / bits, pack = 32 / bits;
    const LinearLayout a = mma_operand(Operand::A, {16, k}, bits, 1, 1);
    const LinearLayout b = mma_operand(Operand::B, {k, 8}, bits, 1, 1);
    const LinearLayout wa = mma_operand(Operand::A, {64, k}, bits, 4, 1);
    ASSERT_EQ(a.registers(), 4 * pack);
    ASSERT_EQ(b.registers(), 2 * pack);
    for_each_place(wa, [&](const HardwareCoord& p) {
      const int g = p.lane >> 2, t = p.lane & 3, j = p.reg / pack, h = p.reg % pack;
      const Dims want_a{g + 8 * (j & 1), pack * t + h + 4 * pack * (j >> 1)};
      const Dims want_wa{16 * p.warp + want_a[0], want_a[1]};
      ASSERT_EQ(wa.apply(p), want_wa);
      if (p.warp == 0) {
        ASSERT_EQ(a.apply(p), want_a);
      }
      if (p.warp == 0 && j < 2) {
        const Dims want_b{pack * t + h + 4 * pack * j, g};
        ASSERT_EQ(b.apply(p), want_b);
      }
    });
  }
}

TEST(LinearLayout, AccumulatorIsTheNextOperandWithoutMoving) {
  // A_j of k16 step s = pack16(acc[8s+2j], acc[8s+2j+1]): element by element the very same layout.
  for (int n : {16, 32, 64, 128, 192})
    EXPECT_EQ(wgmma_acc(64, n), mma_operand(Operand::A, {64, n}, 16, 4, 1));
}

TEST(LinearLayout, MmaTilesRepeatTheInstruction) {
  const LinearLayout l = mma_m16n8k16_acc({64, 48}, 2, 2);
  EXPECT_EQ(l.str(),
            "lin<64x48; reg=[(0,1),(8,0),(32,0)]; lane=[(0,2),(0,4),(1,0),(2,0),(4,0)]; "
            "warp=[(16,0),(0,8)]; "
            "rep=[1*3]>");
  const LinearLayout a = mma_operand(Operand::A, {64, 32}, 16, 2, 2);
  const LinearLayout b = mma_operand(Operand::B, {32, 48}, 16, 2, 2);
  EXPECT_EQ(a.basis(HwDim::Warp, 0), (Dims{16, 0}));
  EXPECT_EQ(a.basis(HwDim::Warp, 1), (Dims{0, 0}));
  EXPECT_EQ(b.basis(HwDim::Warp, 1), (Dims{0, 8}));
  EXPECT_EQ(a.free_bits(HwDim::Warp), 2u);
}

TEST(LinearLayout, InstructionsPadSmallTiles) {
  EXPECT_EQ(mma_m16n8k16_acc({5, 3}, 1, 1).cover(), (Dims{16, 8}));
  EXPECT_EQ(wgmma_acc(40, 20).cover(), (Dims{64, 24}));
  EXPECT_EQ(mma_operand(Operand::B, {8, 4}, 16, 1, 1).cover(), (Dims{16, 8}));
  expect_laws(mma_m16n8k16_acc({5, 3}, 2, 2));
}

TEST(LinearLayout, BlockedHandlesEveryExtent) {
  EXPECT_EQ(
      blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0}).str(),
      "lin<64x64; reg=[(0,1),(0,2),(8,0),(16,0),(32,0)]; lane=[(0,4),(0,8),(0,16),(0,32),(1,0)]; "
      "warp=[(2,0),(4,0)]>");
  for (int rows : {1, 2, 3, 5, 7, 8, 24, 33, 64, 80, 96, 100, 160, 176, 192, 224})
    for (int cols : {1, 3, 8, 24, 40, 64, 72, 100, 112}) {
      const LinearLayout l = blocked({rows, cols}, {1, 4}, {4, 8}, {2, 2}, {1, 0});
      expect_laws(l);
      if (rows % 8 == 0 && cols % 64 == 0) {
        EXPECT_TRUE(l.is_exact());
      }
    }
  expect_laws(blocked({7}, {1}, {32}, {4}, {0}));
  expect_laws(
      blocked({2, 3, 4, 5, 6}, {1, 1, 1, 1, 2}, {1, 2, 2, 2, 4}, {2, 1, 1, 2, 1}, {4, 3, 2, 1, 0}));
}

TEST(LinearLayout, CoveredExtentsAreTheNextMultipleOfTheThreads) {
  const auto rows = [](int n) { return blocked({n}, {2}, {32}, {2}, {0}).cover()[0]; };
  EXPECT_EQ(rows(100), 128);
  EXPECT_EQ(rows(128), 128);
  EXPECT_EQ(rows(129), 256);
  EXPECT_EQ(rows(300), 384);
  EXPECT_EQ(rows(5), 8);
  const LinearLayout l = blocked({300}, {2}, {32}, {2}, {0});
  EXPECT_TRUE(l.is_absent({300}));
  EXPECT_FALSE(l.is_absent({299}));
}

TEST(LinearLayout, OddNumbersOfWarps) {
  for (int m : {16, 48, 64, 96, 100, 192, 384, 640}) {
    expect_laws(mma_m16n8k16_acc({m, 40}, 3, 2));
    expect_laws(mma_operand(Operand::A, {m, 48}, 16, 3, 2));
    expect_laws(mma_operand(Operand::B, {48, m}, 16, 2, 3));
    expect_laws(wgmma_acc(m, 80, 3));
    expect_laws(coalesced({m, 72}, 8, 12, {1, 0}));
  }
  const LinearLayout l = wgmma_acc(192, 80, 3);
  EXPECT_EQ(l.str(),
            "lin<192x80; reg=[(0,1),(8,0),(0,8)]; lane=[(0,2),(0,4),(1,0),(2,0),(4,0)]; "
            "warp=[(16,0),(32,0)]; rep=[warp:0*3,1*5]>");
}

TEST(LinearLayout, CoalescedSpreadsWarpsOverRows) {
  EXPECT_EQ(coalesced({128, 64}, 8, 4, {1, 0}).str(),
            "lin<128x64; reg=[(0,1),(0,2),(0,4),(16,0),(32,0),(64,0)]; "
            "lane=[(0,8),(0,16),(0,32),(1,0),(2,0)]; "
            "warp=[(4,0),(8,0)]>");
  for (int n : {32, 96, 160, 192}) EXPECT_TRUE(coalesced({64, n}, 8, 4, {1, 0}).is_exact()) << n;
  EXPECT_EQ(coalesced({64, 72}, 8, 4, {1, 0}).cover(), (Dims{64, 96}));
  for (int n : {1, 2, 5, 64, 1000, 1024, 4096}) expect_laws(coalesced({n}, 4, 4, {0}));
  for (int n : {8, 24, 40, 64, 72, 200})
    for (int warps : {1, 4, 12}) {
      expect_laws(unpadded({48, n}, 8, warps, {1, 0}));
      EXPECT_TRUE(unpadded({48, n}, 8, warps, {1, 0}).is_exact()) << n;
    }
  expect_laws(coalesced({}, 4, 4, {}));
}

TEST(LinearLayout, FmaOperandsHoldAllOfK) {
  const LinearLayout acc = blocked({32, 64}, {2, 4}, {4, 8}, {2, 2}, {1, 0});
  const auto a = fma_operand(Operand::A, acc, 24), b = fma_operand(Operand::B, acc, 24);
  ASSERT_TRUE(a && b);
  expect_laws(*a);
  expect_laws(*b);
  for_each_place(acc, [&](const HardwareCoord& p) {
    const Dims i = acc.apply(p);
    bool found = false;
    for (int r = 0; r < a->registers(); ++r)
      found |= a->apply({r, p.lane, p.warp, 0}) == Dims{i[0], 23};
    ASSERT_TRUE(found);
  });
}

TEST(LinearLayout, PictureShowsPlaces) {
  const std::string text = picture(mma_m16n8k16_acc({16, 8}, 1, 1));
  EXPECT_NE(text.find("   0:  l0 r0  l0 r1  l1 r0"), std::string::npos) << text;
  EXPECT_NE(text.find("   8:  l0 r2  l0 r3"), std::string::npos) << text;
}

LayoutSpec two_lines_of_64() {
  LayoutSpec spec;
  spec.shape = {2, 64}, spec.bits = {1, 6};
  spec.of(HwDim::Register) = {{0, 1}, {0, 2}};
  spec.of(HwDim::Lane) = {{0, 4}, {0, 8}, {0, 16}, {0, 32}, {1, 0}};
  return spec;
}

TEST(LinearLayout, ScansKeepLinesOfOneBlockAlone) {
  LayoutSpec spec = two_lines_of_64();
  EXPECT_TRUE(is_in_scan_order(LinearLayout(spec), 1));
  spec.of(HwDim::Lane)[1] = {1, 8};
  EXPECT_FALSE(is_in_scan_order(LinearLayout(spec), 1)) << "a lane holds another line";
  spec = two_lines_of_64();
  spec.shape = {2, 128};
  spec.repeats = {{.dim = 1, .count = 2, .in = HwDim::Register}};
  EXPECT_FALSE(is_in_scan_order(LinearLayout(spec), 1)) << "two blocks behind each other";
  EXPECT_FALSE(is_in_topk_order(LinearLayout(spec), 1, 4));
  EXPECT_TRUE(is_in_topk_order(LinearLayout(two_lines_of_64()), 1, 4));
}

TEST(LinearLayout, BestOfWordsAreSharedByTheLanesOfALine) {
  LayoutSpec spec;
  spec.shape = {4, 64}, spec.bits = {2, 6};
  spec.of(HwDim::Register) = {{0, 8}, {0, 16}, {0, 32}};
  spec.of(HwDim::Lane) = {{0, 1}, {0, 2}, {0, 4}, {1, 0}, {2, 0}};
  const LinearLayout line(spec);
  EXPECT_TRUE(is_in_word_order(line, 1, 8));
  EXPECT_FALSE(is_in_topk_order(line, 1, 8)) << "neighbours are in lanes";
  EXPECT_FALSE(is_in_word_order(line, 1, 16)) << "a lane has no run of 16";
  const LinearLayout best = shared_best_elements(line, 1, 16);
  EXPECT_EQ(best.registers(), 2);
  EXPECT_EQ(best.apply({.reg = 1, .lane = 5}), (Dims{0, 11}));
  EXPECT_EQ(best.apply({.lane = 16 + 7}), (Dims{2, 14}));
  EXPECT_EQ(shared_best_elements(line, 1, 2).apply({.lane = 6}), (Dims{0, 0})) << "copies";
}

}  // namespace
}  // namespace tegula::ir::layout_basics_test
