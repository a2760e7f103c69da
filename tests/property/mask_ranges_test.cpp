// The closed form of masks against brute force: kv outside `visible` are seen by no query of the
// tile, those in `full` by every one.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <iostream>

#include "ir/text.h"
#include "tests/property/mask_random.h"
#include "tools/workload/mask_ranges.h"

namespace tegula::ir::mask_ranges_test {
namespace {

using testing::BruteForce;
using testing::MaskKernel;
using testing::RandomMasks;

/// How many kv were decided, of those that could be.
struct Score {
  std::int64_t decided = 0, decidable = 0;
};

void check(const MaskKernel& m, const MaskClosedForm& form, const KvVisibility& cover,
           const MaskBlock& tile, const std::array<std::int64_t, 3>& params, Score& score) {
  for (std::int64_t kv = 0; kv < tile.kv1; ++kv) {
    MaskBlock column = tile;
    column.kv0 = kv;
    column.kv1 = kv + 1;
    const BruteForce truth(m, column, params);
    if (truth.values.empty()) continue;
    const bool visible = cover.visible.contains({kv, kv}), full = cover.full.contains({kv, kv});
    const auto text = [&] {
      return form.expr.str(m.import().root) + "\nkv " + std::to_string(kv) + ", q " +
             std::to_string(tile.q0) + ".." + std::to_string(tile.q1) + "\n" +
             print(m.kernel, {.locations = false});
    };
    ASSERT_TRUE(visible || !truth.any) << text();
    ASSERT_TRUE(!full || truth.all) << text();
    score.decidable += truth.all || !truth.any;
    score.decided += full || !visible;
  }
}

/// Solves masks that `draw` gives, and covers a tile of queries under each.
struct Solved {
  Score score;
  std::array<int, 5> classes{};
  double solving = 0, covering = 0;

  void operator()(RandomMasks& random, int masks, const std::function<Value(MaskKernel&)>& draw) {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto since = [&](auto start) {
      return std::chrono::duration<double>(now() - start).count();
    };
    for (int i = 0; i < masks && !::testing::Test::HasFatalFailure(); ++i) {
      MaskKernel m;
      random.fill_table(m);
      m.root = draw(m);
      const MaskExpr e = m.import();
      auto start = now();
      const MaskClosedForm form = solve_mask(e);
      solving += since(start);
      ++classes[static_cast<std::size_t>(form.mask_class)];
      MaskRanges ranges(form);
      const auto tables = m.tables();
      MaskBlock tile = random.block();
      tile.kv0 = 0;
      tile.kv1 = random.number(1, 24);
      const auto params = random.params();
      start = now();
      const KvVisibility cover = ranges.cover({tile.batch, tile.head, tile.q0, tile.q1, tile.kv1},
                                              {m.slots(e, params), tables});
      covering += since(start);
      check(m, form, cover, tile, params, score);
    }
    std::cout << "random masks: " << score.decided << " of " << score.decidable
              << " uniform kv decided; classes I T C G D:";
    for (const int n : classes) std::cout << ' ' << n;
    std::cout << "; " << solving * 1e6 / masks << " us to solve, " << covering * 1e6 / masks
              << " us a query tile\n";
  }
  double share() const {
    return static_cast<double>(score.decided) / static_cast<double>(score.decidable);
  }
};

TEST(MaskRanges, VisibleAndFullHoldForEveryKey) {
  constexpr int kMasks = 60000;
  RandomMasks random(21);
  Solved run;
  run(random, kMasks,
      [&](MaskKernel& m) { return random.boolean(m, static_cast<int>(random.number(1, 4))); });
  EXPECT_GT(run.share(), 0.7);
  EXPECT_GT(run.classes[0], kMasks / 4);
}

/// Coordinates of the positions, which are of class I where they are put together again, else of
/// class G, and bits of tables, which are of class T or D.
TEST(MaskRanges, HoldOfCoordinatesAndBits) {
  constexpr int kMasks = 100000;
  RandomMasks random(23);
  Solved decoded, bits;
  decoded(random, kMasks, [&](MaskKernel& m) { return random.decoded(m); });
  EXPECT_GT(decoded.classes[0], kMasks / 10);
  EXPECT_GT(decoded.classes[3], kMasks / 10);
  EXPECT_LT(decoded.classes[4], kMasks / 10);
  bits(random, kMasks / 4, [&](MaskKernel& m) { return random.bit_test(m); });
  EXPECT_GT(bits.classes[1], kMasks / 40);
  EXPECT_GT(bits.classes[4], kMasks / 40);
}

}  // namespace
}  // namespace tegula::ir::mask_ranges_test
