// The model of tile schedulers: its static order is that of ir/passes/make_persistent, and the
// worth of an order where it can be counted by hand.
#include "tools/workload/tile_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tegula::tile_schedule_test {
namespace {

using Times = std::vector<std::int64_t>;

/// Each program's tiles as persist's Deal computes them, of `pairs`.
std::int64_t as_persist_deals(const Times& times, std::int64_t programs) {
  const auto total = static_cast<std::int64_t>(times.size());
  const std::int64_t round = 2 * programs, full = total / round, rest = total % round;
  std::int64_t last = 0;
  Times seen(times.size());
  for (std::int64_t p = 0; p < programs; ++p) {
    const auto serpentine = [&](std::int64_t wave) { return wave % 2 == 0 ? p : programs - 1 - p; };
    const std::int64_t place = serpentine(full);
    const std::int64_t more =
        rest <= programs ? place < rest : std::clamp<std::int64_t>(rest - 2 * place, 0, 2);
    std::int64_t busy = 0;
    for (std::int64_t wave = 0; wave < 2 * full + more; ++wave) {
      const std::int64_t at = wave / 2, here = serpentine(at);
      const bool alone = at == full && rest <= programs;
      const auto tile = static_cast<std::size_t>(at * round + (alone ? here : 2 * here + wave % 2));
      busy += times[tile];
      ++seen[tile];
    }
    last = std::max(last, busy);
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](auto n) { return n == 1; }));
  return last;
}

TEST(TileSchedule, AgreesWithMakePersistent) {
  std::mt19937 random(5);
  for (int total = 1; total < 60; ++total)
    for (int programs = 1; programs <= std::min(total, 9); ++programs) {
      Times times;
      for (int i = 0; i < total; ++i) times.push_back(1 + static_cast<std::int64_t>(random() % 50));
      EXPECT_EQ(makespan(times, programs, TileSchedulerKind::static_),
                as_persist_deals(times, programs))
          << total << " tiles, " << programs << " programs";
    }
}

TEST(TileSchedule, TilesThatAreCountedByHand) {
  // From both ends: the long one in the middle comes last.
  const Times steps{1, 1, 9, 1, 1};
  EXPECT_EQ(tile_times(steps, 1, TileOrderKind::balanced_pairs), (Times{2, 2, 2, 2, 10}));
  EXPECT_EQ(tile_times(steps, 2, TileOrderKind::lpt_per_head),
            (Times{10, 2, 2, 2, 2, 10, 2, 2, 2, 2}));
  EXPECT_EQ(tile_times(steps, 2, TileOrderKind::lpt), (Times{10, 10, 2, 2, 2, 2, 2, 2, 2, 2}));
  const auto excess = [&](TileOrderKind o) {
    return makespan_ratio(tile_times(steps, 1, o), 2, TileSchedulerKind::counter);
  };
  EXPECT_DOUBLE_EQ(excess(TileOrderKind::balanced_pairs), 1.4);  // 4 + 10 where one tile takes 10
  EXPECT_DOUBLE_EQ(excess(TileOrderKind::lpt_per_head), 1);
  // Five equal ones for two programs.
  EXPECT_DOUBLE_EQ(makespan_ratio(Times{2, 2, 2, 2, 2}, 2, TileSchedulerKind::counter), 1.2);
  EXPECT_DOUBLE_EQ(makespan_ratio(Times{2, 2, 2, 2, 2}, 2, TileSchedulerKind::static_), 1.2);
  EXPECT_DOUBLE_EQ(makespan_ratio(Times{}, 2, TileSchedulerKind::counter), 1);
}

/// Graham's bound of list scheduling, 2 - 1/m of any order, holds against what an excess is of.
TEST(TileSchedule, IsWithinGrahamsBound) {
  std::mt19937 random(6);
  for (int i = 0; i < 2000; ++i) {
    Times steps;
    for (auto n = 1 + random() % 20; n > 0; --n)
      steps.push_back(static_cast<std::int64_t>(random() % 40));
    const int programs = 1 + static_cast<int>(random() % 12);
    for (const TileOrderKind o :
         {TileOrderKind::balanced_pairs, TileOrderKind::lpt_per_head, TileOrderKind::lpt}) {
      const Times times = tile_times(steps, 3, o);
      const double excess = makespan_ratio(times, programs, TileSchedulerKind::counter);
      EXPECT_GE(excess, 1 - 1e-12);
      EXPECT_LE(excess, 2 - 1.0 / programs + 1e-12);
    }
  }
}

}  // namespace
}  // namespace tegula::tile_schedule_test
