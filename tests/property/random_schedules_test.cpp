// Random Schedules of twelve shapes of loops and of tiles that are stored twice: one that judge
// refuses has its reasons; one that is legal and carried out runs exactly in the simulator, without
// a finding. TEGULA_FUZZ_PROGRAMS and TEGULA_FUZZ_SEED choose how many are run and which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "ir/schedule/carried_out.h"
#include "ir/schedule/judge.h"
#include "ir/schedule/list_schedule.h"
#include "ir/schedule/search.h"
#include "ir/schedule/staging_rings.h"
#include "ir/schedule/text.h"
#include "ir/schedule/timeline.h"
#include "tests/compiled.h"
#include "tests/fuzz/number_from_env.h"
#include "tests/property/loop_shapes.h"

namespace tegula::random_schedules_test {
namespace {

constexpr int kIterations[] = {0, 1, 2, 3, 5};

/// The draws find at least this number of Schedules that the passes carry out.
constexpr std::uint64_t kCarriedOut = 500;
/// A shape has no more Schedules that are carried out if so many draws find none.
constexpr std::uint64_t kVainDraws = 600;

/// The passes carry out something else, or no plan is like that.
bool is_unsupported(std::string_view code) { return code == "T1406" || code == "T1407"; }

class RandomSchedules {
 public:
  RandomSchedules(const test::LoopShape& shape, std::uint64_t seed) : shape_(shape), random_(seed) {
    for (const int n : kIterations) want_[n] = shape.wanted(n);
    tile_ = shape.traced();
    tile_.info.target = ir::Target("sm_90a");
    ir::PassContext context;
    base_ = ir::schedule_carried_out(tile_, context);
    graph_.emplace(base_.machine);
    const auto verdict = ir::judge(base_.machine, *graph_, base_.schedule);
    for (const ir::Reason& r : verdict.reasons)
      ADD_FAILURE() << shape.name << "\n" << r.str() << "\n" << ir::print(base_.schedule);
  }

  /// Draws until so many different ones have run, or none of the last ones has. Returns how many.
  std::uint64_t run(std::uint64_t count) {
    for (std::uint64_t last = 0, i = 0; i - last < kVainDraws && ran_ < count; ++i) {
      ir::Schedule s = base_.schedule;
      if (random_() % 2 == 0) vary(s);
      if (random_() % 2 == 0) vary_stores(s);
      for (std::uint64_t moves = random_() % 8; moves > 0; --moves) {
        ir::Schedule moved = s;
        if (ir::random_move(moved, random_)) s = std::move(moved);
      }
      const std::uint64_t before = ran_;
      if (drawn_.insert(ir::print(s)).second) check(s);
      if (ran_ > before) last = i;
    }
    std::printf("%-24s %4zu drawn, %4llu refused, %4llu legal but not carried out, %4llu run\n",
                shape_.name.c_str(), drawn_.size(), as_long(refused_), as_long(not_had_),
                as_long(ran_));
    EXPECT_GT(ran_, 0u) << shape_.name;
    return ran_;
  }

 private:
  /// Varies the fields that a search keeps: warps of the producer, the order of tiles, slots of
  /// loads.
  void vary(ir::Schedule& s) {
    for (ir::Channel& c : s.channels)
      if (c.kind == ir::ChannelKind::Tma && random_() % 2 == 0)
        c.slots = 2 + static_cast<int>(random_() % 5);
    if (s.roles.size() > 1 && random_() % 2 == 0)
      s.roles.front().warps = s.roles.front().warps == 1 ? 4 : 1;
    if (random_() % 2 == 0) s.tiles.order = ir::TileOrder::Serpentine;
    if (random_() % 4 == 0) s.tiles.ctas = 2;
  }

  /// Each store goes through one of two channels, or through none: their slots, and columns.
  void vary_stores(ir::Schedule& s) {
    std::erase_if(s.channels, [](const ir::Channel& c) { return ir::is_of_stores(c.kind); });
    ir::Channel drawn[2];
    for (const ir::Node& node : graph_->nodes())
      if (node.kind == ir::NodeKind::Store)
        if (const std::size_t to = random_() % 3; to < std::size(drawn))
          drawn[to].payload.push_back(node.label);
    constexpr int kColumns[] = {0, 8, 16, 24, 32};
    for (ir::Channel& c : drawn) {
      if (c.payload.empty()) continue;
      c.name = ir::Name("s" + std::to_string(&c - drawn));
      const auto adds = [&](ir::Label l) {
        return base_.machine[(*graph_)[*graph_->find(l)].ops.front()].attrs.has(ir::AttrName::kind);
      };
      c.kind =
          std::ranges::all_of(c.payload, adds) ? ir::ChannelKind::Reduce : ir::ChannelKind::Store;
      c.slots = 1 + static_cast<int>(random_() % 4);
      c.columns = kColumns[random_() % std::size(kColumns)];
      s.channels.push_back(std::move(c));
    }
  }

  static unsigned long long as_long(std::uint64_t n) { return n; }

  void check(const ir::Schedule& s) {
    const std::string text = ir::print(s);
    SCOPED_TRACE(shape_.name + "\n" + text);
    const ir::Verdict verdict = ir::judge(base_.machine, *graph_, s);
    if (!verdict.is_legal()) {
      ++refused_;
      for (const ir::Reason& r : verdict.reasons) {
        EXPECT_FALSE(r.text.empty());
        EXPECT_TRUE(r.labels.empty() || r.at.known()) << r.str();
      }
      return;
    }
    const auto timeline = ir::timeline_of(base_.machine, *graph_, s);
    ASSERT_TRUE(timeline) << "legal, and the model finds a deadlock";
    expect_rings(*timeline);
    runtime::CompileRequest request;
    request.device = Device::sim();
    request.target = ir::Target("sm_90a");
    request.planned = ir::parse_plan_request(text);
    try {
      const runtime::Compilation k = test::optimized(tile_, request);
      ++ran_;
      const int n = kIterations[random_() % std::size(kIterations)];
      EXPECT_EQ(shape_.fault(k.tile, k.simt, n, want_[n], random_()), "") << n << " iterations";
    } catch (const CompileError& e) {
      if (!is_unsupported(e.diagnostic().code)) throw;
      ++not_had_;
    }
  }

  /// A slot is filled after its release, and released after its landing; tensor cores run one MMA
  /// at a time.
  static void expect_rings(const ir::Timeline& t) {
    std::map<std::pair<std::size_t, std::int64_t>, double> free;
    for (const ir::Timeline::Fill& f : t.fills) {
      EXPECT_LE((free[{f.ring, f.slot}]), f.issued) << f.number;
      EXPECT_LT(f.issued, f.landed);
      EXPECT_LT(f.landed, f.released);
      free[{f.ring, f.slot}] = f.released;
    }
    double busy = 0;
    for (const ir::Timeline::Span& mma : t.mmas) {
      EXPECT_LE(busy, mma.begin);
      busy = mma.end;
    }
    EXPECT_LE(busy, t.end);
  }

  const test::LoopShape& shape_;
  std::mt19937_64 random_;
  std::map<int, std::vector<std::vector<double>>> want_;
  ir::Kernel tile_{"none"};
  ir::CarriedOut base_{ir::Kernel("none"), {}};
  std::optional<ir::Graph> graph_;  ///< of it
  std::set<std::string> drawn_;
  std::uint64_t refused_ = 0, not_had_ = 0, ran_ = 0;
};

TEST(RandomSchedules, LegalOnesRunExactly) {
  const std::uint64_t count = fuzz::number_from_env("TEGULA_FUZZ_PROGRAMS", 36),
                      seed = fuzz::number_from_env("TEGULA_FUZZ_SEED", 1);
  auto shapes = test::loop_shapes();
  shapes.push_back(test::stored_twice());
  std::uint64_t ran = 0;
  // Shapes of few Schedules come first: others make up for them.
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::uint64_t left = shapes.size() - i;
    ran += RandomSchedules(shapes[i], seed).run((count - ran + left - 1) / left);
  }
  std::printf("%llu have run\n", static_cast<unsigned long long>(ran));
  EXPECT_GE(ran, std::min(count, kCarriedOut));
}

/// Schedules by lists and by the search are legal for each shape, and take no more cycles of
/// the model.
TEST(RandomSchedules, TheSearchsAreLegal) {
  for (const test::LoopShape& shape : test::loop_shapes()) {
    SCOPED_TRACE(shape.name);
    shape.wanted(2);
    ir::Kernel tile = shape.traced();
    tile.info.target = ir::Target("sm_90a");
    ir::PassContext context;
    const ir::CarriedOut base = ir::schedule_carried_out(tile, context);
    const ir::Graph graph(base.machine);
    const auto cycles = ir::cycles_of_iteration(base.machine, graph, base.schedule);
    ASSERT_TRUE(cycles);
    const ir::Schedule listed = ir::list_schedule(base.machine, graph, base.schedule);
    const auto of_list = ir::cycles_of_iteration(base.machine, graph, listed);
    ASSERT_TRUE(of_list) << ir::print(listed);
    EXPECT_LE(*of_list, *cycles);
    const ir::SearchResult found = ir::search_schedules(base.machine, graph, base.schedule,
                                                        {.restarts = 2, .moves = 30, .seed = 7});
    EXPECT_LE(found.cycles, *of_list);
    EXPECT_GT(found.legal, 0);
    for (const ir::Schedule* s : {&listed, &found.schedule})
      for (const ir::Reason& r : ir::judge(base.machine, graph, *s).reasons)
        ADD_FAILURE() << r.str() << "\n" << ir::print(*s);
    std::printf("%-24s %6.0f cycles per iteration, %6.0f by lists, %6.0f by the search\n",
                shape.name.c_str(), *cycles, *of_list, found.cycles);
  }
}

}  // namespace
}  // namespace tegula::random_schedules_test
