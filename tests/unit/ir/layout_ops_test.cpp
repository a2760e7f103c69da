// Shape operations move no data: each result place holds the element that the operation's meaning
// says.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/reduction.h"

namespace tegula::ir::layout_ops_test {
namespace {

const std::vector<LinearLayout>& samples() {
  static const std::vector<LinearLayout> all{
      blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0}),
      blocked({24, 40}, {1, 2}, {8, 4}, {1, 2}, {1, 0}),
      blocked({33, 100}, {2, 2}, {4, 8}, {2, 2}, {0, 1}),
      mma_m16n8k16_acc({48, 80}, 1, 2),
      wgmma_acc(128, 96, 2),
      wgmma_acc(192, 24, 3),
      mma_operand(Operand::A, {32, 64}, 16, 2, 2),
      mma_operand(Operand::B, {64, 48}, 8, 2, 2),
      blocked({4, 4}, {1, 1}, {4, 8}, {2, 2}, {1, 0}),
      *LinearLayout::parse("lin<4x4; reg=[(0,1),0,(0,2)]; lane=[(1,0),(2,0),0,0,0]>")};
  return all;
}

template <class F>
void for_each_thread(const LinearLayout& l, F f) {
  for (int w = 0; w < l.size(HwDim::Warp); ++w)
    for (int t = 0; t < l.size(HwDim::Lane); ++t) f(HardwareCoord{0, t, w, 0});
}

template <class F>
void for_each_place(const LinearLayout& l, F f) {
  for_each_thread(l, [&](HardwareCoord p) {
    for (p.reg = 0; p.reg < l.registers(); ++p.reg) f(p);
  });
}

TEST(LayoutOps, SliceKeepsEveryThreadsRows) {
  for (const LinearLayout& l : samples())
    for (int dim : {0, 1}) {
      const LinearLayout s = slice(l, dim);
      EXPECT_TRUE(s.is_surjective());
      std::vector<std::set<int>> rows, want;
      for_each_thread(l, [&](HardwareCoord p) {
        std::set<int> a, b;
        for (p.reg = 0; p.reg < l.registers(); ++p.reg) a.insert(l.apply(p)[1 - dim]);
        for (p.reg = 0; p.reg < s.registers(); ++p.reg) b.insert(s.apply(p)[0]);
        ASSERT_EQ(a, b) << l.str();
        ASSERT_EQ(static_cast<int>(b.size()), s.registers()) << "a register copy was kept";
      });
    }
}

TEST(LayoutOps, ExpandPermuteKeepPlaces) {
  for (const LinearLayout& l : samples()) {
    const LinearLayout e = expand_dim(l, 1), t = permute(l, {1, 0});
    for_each_place(l, [&](const HardwareCoord& p) {
      const Dims i = l.apply(p);
      const Dims expanded{i[0], 0, i[1]}, turned{i[1], i[0]};
      ASSERT_EQ(e.apply(p), expanded);
      ASSERT_EQ(t.apply(p), turned);
    });
    EXPECT_EQ(permute(t, {1, 0}), l);
    EXPECT_EQ(*reshape(e, l.shape()), l);
  }
}

std::int64_t row_major(const Dims& index, const Dims& shape) {
  std::int64_t n = 0;
  for (int d = 0; d < shape.size(); ++d) n = n * shape[d] + index[d];
  return n;
}

TEST(LayoutOps, ReshapeKeepsRowMajorNumbers) {
  int done = 0;
  for (const LinearLayout& l : samples()) {
    const int a = l.shape()[0], b = l.shape()[1];
    for (const Dims& shape :
         {Dims{a * b}, Dims{a, b / 2, 2}, Dims{a, 2, b / 2}, Dims{2, a / 2, b}, Dims{a / 2, b * 2},
          Dims{a * 2, b / 2}, Dims{a, 1, b}, Dims{a / 2, 2, b / 4, 4}, Dims{1, a, b, 1}}) {
      if (shape.product() != a * b) continue;
      const auto r = reshape(l, shape);
      if (!r) {
        EXPECT_FALSE(r.reason().empty());
        continue;
      }
      ++done;
      for_each_place(l, [&](const HardwareCoord& p) {
        if (l.is_absent(l.apply(p))) return;
        ASSERT_EQ(row_major(r->apply(p), shape), row_major(l.apply(p), l.shape()))
            << l.str() << r->str();
      });
      const auto back = reshape(*r, l.shape());
      ASSERT_TRUE(back) << back.reason();
      EXPECT_EQ(*back, l);
    }
  }
  EXPECT_GT(done, 50);
}

TEST(LayoutOps, ReshapeExplainsRejections) {
  const LinearLayout l = wgmma_acc(64, 96);  // columns: 3 x 32
  EXPECT_EQ(reshape(l, {6144}).reason(),
            "repeat digits of different dimensions would mix with bits");
  EXPECT_EQ(reshape(l, {64, 32, 3}).reason(),
            "repeat digits of different dimensions would mix with bits");
  EXPECT_EQ(reshape(l, {64, 90}).reason(), "the numbers of elements differ");
  ASSERT_TRUE(reshape(l, {64, 3, 32}));
  ASSERT_TRUE(reshape(l, {64, 6, 16}));
  EXPECT_EQ(reshape(l, {64, 6, 16})->str(),
            "lin<64x6x16; reg=[(0,0,1),(8,0,0),(0,0,8),(0,1,0)]; "
            "lane=[(0,0,2),(0,0,4),(1,0,0),(2,0,0),(4,0,0)]; "
            "warp=[(16,0,0),(32,0,0)]; rep=[1*3]>");
  EXPECT_TRUE(reshape(LayoutBuilder({3, 5}).build({1, 0}), {15}));
  EXPECT_EQ(reshape(LayoutBuilder({3, 5}).build({0, 1}), {15}).reason(),
            "repeat digits would merge in the wrong order");
  const LinearLayout padded = blocked({100, 8}, {1, 1}, {32, 1}, {1, 1}, {0, 1});
  EXPECT_EQ(reshape(padded, {50, 16}).reason(), "a padded dimension would be cut or merged");
}

TEST(LayoutOps, BroadcastReadsTheSameThread) {
  for (const LinearLayout& l : samples())
    for (int dim : {0, 1}) {
      const LinearLayout column = expand_dim(slice(l, dim), dim);
      const auto back =
          broadcast_registers(column, l);  // result of a reduction back to the tile: free
      ASSERT_TRUE(back) << back.reason() << l.str();
      const auto wide = broadcast(column, dim, 40);
      ASSERT_TRUE(wide);
      const auto registers = broadcast_registers(column, *wide);
      ASSERT_TRUE(registers);
      for_each_place(*wide, [&](HardwareCoord p) {
        const Dims i = wide->apply(p);
        p.reg = (*registers)[static_cast<std::size_t>(p.reg)];
        ASSERT_EQ(column.apply(p)[1 - dim], i[1 - dim]);
      });
      for_each_place(l, [&](HardwareCoord p) {
        const Dims i = l.apply(p);
        p.reg = (*back)[static_cast<std::size_t>(p.reg)];
        ASSERT_EQ(column.apply(p)[1 - dim], i[1 - dim]);
      });
    }
  EXPECT_FALSE(broadcast_registers(expand_dim(slice(samples()[0], 1), 1), samples()[1]));
  EXPECT_FALSE(broadcast(samples()[0], 0, 4));
  LayoutSpec other_lanes = wgmma_acc(64, 64).spec();
  std::swap(other_lanes.of(HwDim::Lane)[2], other_lanes.of(HwDim::Lane)[3]);
  EXPECT_EQ(
      broadcast_registers(expand_dim(slice(LinearLayout(other_lanes), 1), 1), wgmma_acc(64, 64))
          .reason(),
      "the threads hold different parts");
}

TEST(LayoutOps, SubtilesAreRegisters) {
  const LinearLayout acc = wgmma_acc(64, 160);
  int columns = 0;
  for (int n : {64, 64, 32}) {
    const auto part = subtile(acc, {0, columns}, {64, n});
    ASSERT_TRUE(part) << part.reason();
    ASSERT_EQ(part->layout.shape(), (Dims{64, n}));
    for_each_place(part->layout, [&](HardwareCoord p) {
      const Dims i = part->layout.apply(p);
      p.reg = part->registers[static_cast<std::size_t>(p.reg)];
      ASSERT_EQ(acc.apply(p), (Dims{i[0], i[1] + columns}));
    });
    columns += n;
  }
  EXPECT_EQ(subtile(acc, {0, 8}, {64, 48})->registers.size(), 24u);
  EXPECT_EQ(subtile(acc, {0, 4}, {64, 8}).reason(), "the box would leave out threads");
  EXPECT_EQ(subtile(acc, {0, 128}, {64, 64}).reason(), "the box leaves the tile");
  EXPECT_EQ(subtile(acc, {0, 0}, {32, 160}).reason(), "the box would leave out threads");
  EXPECT_EQ(subtile(wgmma_acc(256, 64, 2), {128, 0}, {128, 64})->layout, wgmma_acc(128, 64, 2));
}

TEST(LayoutOps, ReductionsCombineEachElementOnce) {
  for (const LinearLayout& l : samples())
    for (int dim : {0, 1}) {
      SCOPED_TRACE(l.str());
      const auto plan = plan_reduction(l, dim);
      ASSERT_TRUE(plan) << plan.reason();
      // Walk what each thread's result register collects; every element of the fiber must come
      // exactly once.
      for_each_thread(l, [&](const HardwareCoord& thread) {
        if (thread.lane % 5 != 0) return;
        for (int r = 0; r < plan->result.registers(); ++r) {
          std::vector<HardwareCoord> sources;
          for (int reg : plan->registers[static_cast<std::size_t>(r)])
            sources.push_back({reg, thread.lane, thread.warp, 0});
          const auto doubled = [&](HwDim in, int mask) {
            const auto n = sources.size();
            for (std::size_t i = 0; i < n; ++i) {
              sources.push_back(sources[i]);
              sources.back()[in] ^= mask;
            }
          };
          for (int mask : plan->lane_masks) doubled(HwDim::Lane, mask);
          for (int mask : plan->warp_masks) doubled(HwDim::Warp, mask);
          for (const ThreadDigit& d : plan->warp_digits) {
            const auto n = sources.size();
            for (int step = 1; step < d.count; ++step)
              for (std::size_t i = 0; i < n; ++i) {
                HardwareCoord p = sources[i];
                const int digit = p.warp / d.divisor % d.count;
                p.warp += ((digit + step) % d.count - digit) * d.divisor;
                sources.push_back(p);
              }
          }
          std::set<int> along;
          const int row = plan->result.apply({r, thread.lane, thread.warp, 0})[0];
          for (const HardwareCoord& p : sources) {
            ASSERT_EQ(l.apply(p)[1 - dim], row);
            ASSERT_TRUE(along.insert(l.apply(p)[dim]).second) << "counted twice";
          }
          ASSERT_EQ(static_cast<int>(along.size()), l.cover()[dim]);
        }
      });
    }
  EXPECT_FALSE(plan_reduction(wgmma_acc(64, 64), 1)->needs_shared());
  EXPECT_EQ(plan_reduction(wgmma_acc(64, 64), 1)->lane_masks, (std::vector<int>{1, 2}));
  EXPECT_EQ(plan_reduction(wgmma_acc(192, 64, 3), 0)->warps(), 12);
}

TEST(LayoutOps, ReductionRefusesMixedBits) {
  const auto mixed = LinearLayout::parse("lin<4x2; reg=[(1,0),(2,0)]; lane=[(1,1)]>");
  ASSERT_TRUE(mixed);
  EXPECT_FALSE(plan_reduction(*mixed, 1));
}

TEST(LayoutOps, NumbersCountLanesFirst) {
  int numbered = 0;
  for (const LinearLayout& l : samples()) {
    const auto by_lanes = number_lanes_first(l);
    ASSERT_EQ(static_cast<bool>(by_lanes), l.repeats().empty()) << l.str();
    if (!by_lanes) continue;
    ++numbered;
    // Places share a number exactly if they hold the same element.
    std::map<int, Dims> element_of;
    std::set<int> of_first_warp;
    for_each_place(l, [&](const HardwareCoord& p) {
      const int number = by_lanes->apply(p)[0];
      ASSERT_LT(number, 1 << l.index_bits()) << l.str();
      ASSERT_EQ(element_of.try_emplace(number, l.apply(p)).first->second, l.apply(p)) << l.str();
      if (p.reg == 0 && p.warp == 0) of_first_warp.insert(number);
    });
    std::set<std::vector<int>> elements;
    for (const auto& [number, e] : element_of) elements.emplace(e.begin(), e.end());
    ASSERT_EQ(elements.size(), element_of.size()) << l.str();
    // A register of a warp is a run of numbers: no bank is met twice.
    ASSERT_EQ(*of_first_warp.rbegin() + 1, static_cast<int>(of_first_warp.size())) << l.str();
  }
  EXPECT_GE(numbered, 4);
}

/// Narrow tiles of an accumulator have no columns left to exchange, so rows are.
TEST(LayoutOps, LongerRunsExchangeLanesForColumnsElseForRows) {
  for (const int columns : {16, 32, 64}) {
    SCOPED_TRACE(columns);
    const LinearLayout own = wgmma_acc(128, columns, 2);
    const auto longer = lengthen_runs(own, 1, 8);
    ASSERT_TRUE(longer);
    EXPECT_TRUE(longer->is_surjective());
    EXPECT_EQ(longer->registers(), own.registers());
    std::set<int> run;  // of the first thread, along its first row
    for (HardwareCoord p{0, 0, 0, 0}; p.reg < longer->registers(); ++p.reg)
      if (const Dims at = longer->apply(p); at[0] == 0 && at[1] < 8) run.insert(at[1]);
    EXPECT_EQ(run.size(), 8u);
  }
  EXPECT_FALSE(lengthen_runs(wgmma_acc(64, 8, 1), 1, 8)) << "two registers beyond are too few";
  EXPECT_FALSE(lengthen_runs(wgmma_acc(128, 256, 2), 0, 8)) << "words hold pairs of columns";
}

}  // namespace
}  // namespace tegula::ir::layout_ops_test
