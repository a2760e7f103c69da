// The analysis of masks against brute force: what it claims of a block holds at every element.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "ir/text.h"
#include "tests/property/mask_random.h"

namespace tegula::ir::mask_blocks_test {
namespace {

using testing::BruteForce;
using testing::MaskKernel;
using testing::RandomMasks;

std::string show(const MaskKernel& m, const MaskExpr& e, const MaskBlock& b,
                 const std::array<std::int64_t, 3>& p) {
  std::string text = e.str() + "\nb " + std::to_string(b.batch) + ", h " + std::to_string(b.head);
  for (const std::int64_t v : {b.q0, b.q1, b.kv0, b.kv1, p[0], p[1], p[2]})
    text += " " + std::to_string(v);
  return text + "\n" + print(m.kernel, {.locations = false});
}

struct Tally {
  std::int64_t claimed = 0, decidable = 0;
  double seconds = 0;
};

/// One block of a mask, cut in up to `cuts` places.
void check(const MaskKernel& m, RandomMasks& random, int cuts, Tally& tally) {
  const MaskExpr e = m.import();
  MaskBlocks blocks(e);
  const auto tables = m.tables();
  const MaskBlock block = random.block();
  const auto params = random.params();
  const auto slots = m.slots(e, params);
  const auto start = std::chrono::steady_clock::now();
  const BlockCoverage c = blocks.classify(block, {slots, tables}, cuts);
  tally.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const BruteForce truth(m, block, params);
  if (truth.values.empty()) return;
  ASSERT_FALSE(c == BlockCoverage::Full && !truth.all) << show(m, e, block, params);
  ASSERT_FALSE(c == BlockCoverage::Empty && truth.any) << show(m, e, block, params);
  tally.decidable += truth.all || !truth.any;
  tally.claimed += c != BlockCoverage::Partial;
}

TEST(MaskBlocks, EmptyAndFullHoldAtEveryElement) {
  constexpr int kMasks = 60000, kBlocksEach = 2;  // 120000 cases
  RandomMasks random(11);
  Tally tally;
  for (int i = 0; i < kMasks; ++i) {
    MaskKernel m;
    random.fill_table(m);
    m.root = random.boolean(m, static_cast<int>(random.number(1, 4)));
    for (const int cuts : {32, 0}) check(m, random, cuts, tally);
    if (HasFatalFailure()) return;
  }
  std::cout << "random masks: " << tally.claimed << " of " << tally.decidable
            << " uniform blocks decided, " << tally.seconds * 1e6 / (kMasks * kBlocksEach)
            << " us a block\n";
  EXPECT_GT(static_cast<double>(tally.claimed), 0.9 * static_cast<double>(tally.decidable));
}

/// Masks of these forms alone, as among all others they are few.
TEST(MaskBlocks, CoordinatesAndBitsHoldAtEveryElement) {
  constexpr int kMasks = 50000;  // two blocks each: 100000 cases
  RandomMasks random(13);
  Tally tally;
  for (int i = 0; i < kMasks; ++i) {
    MaskKernel m;
    random.fill_table(m);
    m.root = i % 4 == 0 ? random.bit_test(m) : random.decoded(m);
    for (const int cuts : {32, 0}) check(m, random, cuts, tally);
    if (HasFatalFailure()) return;
  }
  std::cout << "coordinates and bits: " << tally.claimed << " of " << tally.decidable
            << " uniform blocks decided\n";
  EXPECT_GT(static_cast<double>(tally.claimed), 0.7 * static_cast<double>(tally.decidable));
}

TEST(MaskBlocks, RangesAndCongruencesHoldAtEveryElement) {
  RandomMasks random(12);
  for (int i = 0; i < 40000; ++i) {
    MaskKernel m;
    random.fill_table(m);
    m.root = random.integer(m, static_cast<int>(random.number(1, 4)));
    const MaskExpr e = m.import();
    MaskBlocks blocks(e);
    const auto tables = m.tables();
    const MaskBlock b = random.block();
    const auto params = random.params();
    blocks.evaluate(
        {Interval::point(b.batch), Interval::point(b.head), {b.q0, b.q1 - 1}, {b.kv0, b.kv1 - 1}},
        {m.slots(e, params), tables});
    const MaskValue& v = blocks.value(e.root);
    for (const std::int64_t x : BruteForce(m, b, params).values) {
      ASSERT_TRUE(v.range.contains(x)) << x << " " << show(m, e, b, params);
      ASSERT_TRUE(v.stride.allows(x)) << x << " " << show(m, e, b, params);
    }
  }
}

}  // namespace
}  // namespace tegula::ir::mask_blocks_test
