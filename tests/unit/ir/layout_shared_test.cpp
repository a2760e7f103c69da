// Shared-memory layouts against the hardware's swizzles, and ldmatrix/stmatrix over every tile we
// may choose.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/analysis/tma_access.h"
#include "ir/copy_layout.h"
#include "ir/layout/bank_conflicts.h"
#include "ir/layout/distributed.h"
#include "ir/layout/matrix_access.h"
#include "ir/layout/shared_layout.h"
#include "ir/layout/thread_fn.h"

namespace tegula::ir::layout_shared_test {
namespace {

template <class F>
void for_each_index(const Dims& shape, F f) {
  for (std::int64_t n = 0; n < shape.product(); ++n) {
    Dims i = Dims::filled(shape.size(), 0);
    std::int64_t left = n;
    for (int d = shape.size() - 1; d >= 0; left /= shape[d], --d)
      i[d] = static_cast<int>(left % shape[d]);
    f(i);
  }
}

/// Different elements have different, aligned addresses, and the text describes the whole layout.
void expect_laws(const SharedLayout& l) {
  SCOPED_TRACE(l.str());
  std::set<std::int64_t> seen;
  for_each_index(l.shape(), [&](const Dims& i) {
    const auto offset = l.offset(i);
    ASSERT_EQ(offset % l.element_bytes(), 0);
    ASSERT_GE(offset, 0);
    ASSERT_LE(offset + l.element_bytes(), l.bytes());
    ASSERT_TRUE(seen.insert(offset).second);
  });
  const auto parsed = SharedLayout::parse(l.str());
  ASSERT_TRUE(parsed) << parsed.reason();
  EXPECT_EQ(*parsed, l);
}

TEST(SharedLayout, SwizzlesAreTheHardwares) {
  // gemm.md d3, on byte addresses: 128 B: bits 4..6 ^= 7..9; 64 B: 4..5 ^= 7..8; 32 B: 4 ^= 7.
  for (int bytes : {1, 2, 4})
    for (int swizzle : {32, 64, 128})
      for (int rows : {8, 24, 64, 96, 128}) {
        const int width = swizzle / bytes;
        const auto l = SharedLayout::swizzled({rows, width}, bytes, {1, 0}, swizzle);
        ASSERT_TRUE(l) << l.reason();
        for_each_index(l->shape(), [&](const Dims& i) {
          const int address = i[0] * swizzle + i[1] * bytes;
          const int want = address ^ (address >> 7 & (swizzle / 16 - 1)) << 4;
          ASSERT_EQ(l->offset(i), want) << l->str();
        });
        EXPECT_EQ(l->alignment(), 8 * swizzle);
        EXPECT_EQ(l->bytes(), rows * swizzle);
      }
}

TEST(SharedLayout, WideRowsAreCutIntoPieces) {
  const auto text = [](int columns, SegmentRule rule) {
    return SharedLayout::swizzled({64, columns}, 2, {1, 0}, 128, rule)->str();
  };
  EXPECT_EQ(text(160, SegmentRule::WidestFirst), "swz<64x160:2; order=[1,0]; rows=[128*2,64]>");
  EXPECT_EQ(text(160, SegmentRule::Equal), "swz<64x160:2; order=[1,0]; rows=[64*5]>");
  EXPECT_EQ(text(256, SegmentRule::Equal), "swz<64x256:2; order=[1,0]; rows=[128*4]>");
  EXPECT_EQ(text(72, SegmentRule::WidestFirst), "swz<64x72:2; order=[1,0]; rows=[128,plain:16]>");
  EXPECT_EQ(text(8, SegmentRule::Equal), "swz<64x8:2; order=[1,0]; rows=[plain:16]>");
  const auto l = *SharedLayout::swizzled({64, 160}, 2, {1, 0}, 128, SegmentRule::WidestFirst);
  EXPECT_EQ(l.offset({0, 64}), 64 * 128);            // second slab
  EXPECT_EQ(l.offset({1, 128}), 2 * 64 * 128 + 64);  // third, rows of 64 B
  EXPECT_EQ(l.offset({1, 8}), 128 + (16 ^ 16));      // row 1 exchanges neighbouring chunks
}

TEST(SharedLayout, EveryTileIsABijection) {
  for (int bytes : {1, 2, 4})
    for (int rows : {1, 2, 4, 8, 16, 24, 80, 100})
      for (int columns : {8, 16, 24, 64, 80, 96, 100, 160, 176, 192})
        for (int max_swizzle : {0, 32, 64, 128})
          for (SegmentRule rule : {SegmentRule::Equal, SegmentRule::WidestFirst}) {
            const auto l =
                SharedLayout::swizzled({rows, columns}, bytes, {1, 0}, max_swizzle, rule);
            if (l)
              expect_laws(*l);
            else
              EXPECT_TRUE(rows % 8 != 0 && (rows & (rows - 1)) != 0) << l.reason();
            if (max_swizzle == 0) {
              EXPECT_TRUE(l);
            }
          }
  expect_laws(*SharedLayout::swizzled({64, 48}, 2, {0, 1}));  // column-major
  expect_laws(*SharedLayout::swizzled({4, 64, 96}, 2, {2, 1, 0}, 128, SegmentRule::WidestFirst, 1));
  expect_laws(*SharedLayout::swizzled({3, 16, 64}, 2, {2, 1, 0}, 128, SegmentRule::WidestFirst, 0));
  expect_laws(SharedLayout::plain({3, 5, 7}, 4, {2, 0, 1}));
  expect_laws(SharedLayout::plain({}, 4, {}));
}

TEST(SharedLayout, LastPieceMayReachBeyondTheRow) {
  const auto padded = [](int columns, int pieces) {
    const SwizzleSegment row{128, 128, pieces};
    return SharedLayout::pieces({2, 16, columns}, 2, {2, 1, 0}, {&row, 1}, 1);
  };
  const auto l = padded(112, 2);
  ASSERT_TRUE(l) << l.reason();
  expect_laws(*l);
  const auto whole = *padded(128, 2);
  EXPECT_EQ(l->bytes(), whole.bytes());
  for_each_index(l->shape(), [&](const Dims& i) { ASSERT_EQ(l->offset(i), whole.offset(i)); });
  EXPECT_EQ(padded(128, 3).reason(), "the pieces do not add up to a row");
  EXPECT_EQ(padded(112, 1).reason(), "the pieces do not add up to a row");
}

/// Rows that begin inside of sectors get fewer, wider segments, where those read fewer sectors.
TEST(SharedLayout, SegmentsOfRowsBySectors) {
  const auto text = [](std::int64_t columns, std::int64_t end, bool whole_sectors) {
    const TmaSegments s = tma_segments(2 * columns, 2 * end, whole_sectors);
    return std::to_string(s.swizzle) + "*" + std::to_string(s.count);
  };
  EXPECT_EQ(text(112, 112, true), "32*7");
  EXPECT_EQ(text(112, 104, false), "128*2");
  EXPECT_EQ(text(144, 136, false), "128*3");
  EXPECT_EQ(text(160, 152, false), "128*3");
  EXPECT_EQ(text(256, 248, false), "128*4");
  EXPECT_EQ(text(16, 8, false), "32*1");
  EXPECT_EQ(text(32, 24, false), "64*1");
  // A part of a longer row: the last segment would read what is not wanted.
  EXPECT_EQ(text(160, 1000, false), "64*5");
  EXPECT_EQ(text(208, 1000, false), "128*4");
  EXPECT_EQ(text(12, 12, false), "0*0");
}

TEST(SharedLayout, StagesAreOutsideThePieces) {
  const auto l = *SharedLayout::swizzled({4, 64, 128}, 2, {2, 1, 0}, 128, SegmentRule::Equal, 1);
  const auto one = *SharedLayout::swizzled({64, 128}, 2, {1, 0});
  for_each_index(l.shape(), [&](const Dims& i) {
    ASSERT_EQ(l.offset(i), i[0] * one.bytes() + one.offset({i[1], i[2]}));
  });
}

TEST(SharedLayout, TextRejectsInvalidLayouts) {
  for (const char* bad :
       {"", "swz<64x64:2>", "swz<64x64:3; order=[1,0]; rows=[128]>",
        "swz<64x64:2; order=[1,1]; rows=[128]>", "swz<64x64:2; order=[1,0]; rows=[64]>",
        "swz<64x64:2; order=[1,0]; rows=[128]; batch=2>",
        "swz<64x64:2; order=[1,0]; rows=[48*2,16*2]>", "mem<4x2:2; off=[(1,0),(2,0)]>",
        "mem<4x2:2; off=[(1,0),(2,0),(3,0)]>", "mem<12:2; off=[1,2]; rep=[0*2]>",
        "mem<4:2; off=[1,2]>x"}) {
    EXPECT_FALSE(SharedLayout::parse(bad)) << bad;
  }
  EXPECT_TRUE(SharedLayout::parse("mem<12x2:2; off=[(1,0),(2,1),(2,0)]; rep=[0*3]>"));
}

/// The addresses that hardware computes from a plan: element register -> byte address, for each
/// lane.
void expect_addresses(const MatrixPlan& plan, const SharedLayout& shared,
                      const LinearLayout& dist) {
  const int bytes = shared.element_bytes(), per_word = 4 / bytes;
  std::size_t covered = 0;
  for (const auto& access : plan.accesses) {
    covered += access.registers.size();
    for (int w = 0; w < dist.size(HwDim::Warp); ++w)
      for (int lane = 0; lane < 32; ++lane)
        for (int m = 0; m < plan.matrices; ++m)
          for (int h = 0; h < per_word; ++h) {
            const int row = plan.transposed ? 2 * (lane & 3) + h : lane >> 2;
            const int byte = plan.transposed ? 2 * (lane >> 2) : 4 * (lane & 3) + h * bytes;
            const auto address = plan.row_address(access, {0, 8 * m + row, w, 0}) + byte;
            const int reg = access.registers.at(static_cast<std::size_t>(m * per_word + h));
            ASSERT_EQ(address, shared.offset(dist.apply({reg, lane, w, 0})));
          }
  }
  ASSERT_EQ(static_cast<int>(covered), dist.registers());
}

TEST(MatrixAccess, LoadsEveryOperandTileWithoutConflicts) {
  for (int bits : {8, 16, 32})
    for (int m : {16, 32, 64, 96, 128})
      for (int k : {256 / bits, 512 / bits, 1024 / bits, 1536 / bits}) {
        for (Operand operand : {Operand::A, Operand::B}) {
          const bool is_a = operand == Operand::A;
          const Dims shape = is_a ? Dims{m, k} : Dims{k, m};
          const LinearLayout dist = mma_operand(operand, shape, bits, 1, 1);
          const auto shared =
              SharedLayout::swizzled(shape, bits / 8, is_a ? Dims{1, 0} : Dims{0, 1});
          ASSERT_TRUE(shared) << shared.reason();
          const auto plan = matrix_plan(*shared, dist, false);
          ASSERT_TRUE(plan) << plan.reason() << dist.str() << shared->str();
          EXPECT_EQ(plan->matrices, dist.registers() * bits / 32 % 4 == 0 ? 4 : 2) << dist.str();
          expect_addresses(*plan, *shared, dist);
          EXPECT_EQ(bank_use(dist, *plan).extra(), 0) << dist.str() << shared->str();
        }
      }
}

TEST(MatrixAccess, TransposesMnMajorTiles) {
  for (int m : {16, 32, 64, 96, 128})
    for (int k : {16, 32, 64, 96})
      for (Operand operand : {Operand::A, Operand::B}) {
        const bool is_a = operand == Operand::A;
        const Dims shape = is_a ? Dims{m, k} : Dims{k, m};
        const LinearLayout dist = mma_operand(operand, shape, 16, 1, 1);
        const auto shared = SharedLayout::swizzled(shape, 2, is_a ? Dims{0, 1} : Dims{1, 0});
        ASSERT_TRUE(shared);
        EXPECT_FALSE(matrix_plan(*shared, dist, false));
        const auto plan = ldmatrix_plan(*shared, dist);
        ASSERT_TRUE(plan) << plan.reason();
        EXPECT_TRUE(plan->transposed);
        EXPECT_EQ(plan->matrices, 4);
        expect_addresses(*plan, *shared, dist);
        EXPECT_EQ(bank_use(dist, *plan).extra(), 0) << dist.str() << shared->str();
      }
}

TEST(MatrixAccess, StoresWgmmaAccumulators) {
  // gemm.md d2: lane address row = 16w + (l & 15), column = 16q + 8 (l >> 4), chunk (2q + (l >> 4))
  // ^ (row & 7).
  const LinearLayout acc = wgmma_acc(64, 64);
  const auto shared = *SharedLayout::swizzled({64, 64}, 2, {1, 0});
  const auto plan = matrix_plan(shared, acc, false);
  ASSERT_TRUE(plan) << plan.reason();
  ASSERT_EQ(plan->matrices, 4);
  for (std::size_t q = 0; q < 4; ++q) {
    std::vector<int> registers;
    for (int r = 0; r < 8; ++r) registers.push_back(8 * static_cast<int>(q) + r);
    EXPECT_EQ(plan->accesses[q].registers, registers);
    for (int w = 0; w < 4; ++w)
      for (int l = 0; l < 32; ++l) {
        const int row = 16 * w + (l & 15), chunk = (2 * static_cast<int>(q) + (l >> 4)) ^ (row & 7);
        ASSERT_EQ(plan->row_address(plan->accesses[q], {0, l, w, 0}), row * 128 + chunk * 16);
      }
  }
  for (int n = 8; n <= 256; n += 8)
    for (SegmentRule rule : {SegmentRule::Equal, SegmentRule::WidestFirst})
      for (int groups : {1, 2, 3}) {
        const LinearLayout dist = wgmma_acc(64 * groups, n, groups);
        const auto tile = *SharedLayout::swizzled(dist.shape(), 2, {1, 0}, 128, rule);
        const auto stored = matrix_plan(tile, dist, false);
        ASSERT_TRUE(stored) << stored.reason() << tile.str();
        expect_addresses(*stored, tile, dist);
        EXPECT_EQ(bank_use(dist, *stored).extra(), 0) << tile.str();
      }
}

TEST(MatrixAccess, RefusesWithReasons) {
  const LinearLayout acc = wgmma_acc(64, 64);
  EXPECT_EQ(matrix_plan(SharedLayout::plain({64, 64}, 8, {1, 0}), acc, false).reason(),
            "a register does not hold consecutive bytes of a row");
  EXPECT_EQ(
      matrix_plan(SharedLayout::plain({64, 68}, 2, {1, 0}), wgmma_acc(64, 68), false).reason(),
      "the lanes do not cover rows of 16 bytes");
  EXPECT_EQ(matrix_plan(SharedLayout::plain({64, 64}, 2, {1, 0}),
                        blocked({64, 64}, {1, 2}, {32, 1}, {4, 1}, {1, 0}), false)
                .reason(),
            "rows are not aligned to 16 bytes");
}

TEST(SharedFn, RefusesWithReasons) {
  // Three warpgroups count rows above 64 in threes; a block of 256 rows counts them in binary.
  const auto rows = SharedLayout::parse(
      "mem<192x8:2; off=[(0,1),(0,2),(0,4),(1,0),(2,0),(4,0),(8,0),(16,0),(32,0),(64,0),(128,0)]>");
  ASSERT_TRUE(rows) << rows.reason();
  EXPECT_EQ(shared_fn(*rows, wgmma_acc(192, 8, 3)).reason(),
            "a thread's digit reaches into the linear block");
  EXPECT_TRUE(shared_fn(*rows, coalesced({192, 8}, 8, 4, {1, 0})));
  const auto pieces = *SharedLayout::swizzled({64, 96}, 2, {1, 0}, 128, SegmentRule::WidestFirst);
  EXPECT_EQ(shared_fn(pieces, blocked({64, 96}, {1, 1}, {1, 32}, {1, 4}, {1, 0})).reason(),
            "a thread's elements straddle pieces");
  EXPECT_EQ(shared_fn(pieces, coalesced({96}, 1, 1, {0})).reason(), "the ranks differ");
}

/// Accumulators of f32 are pairs of columns, eight bytes a lane: from boxes that TMA loads in rows
/// of 128 bytes each phase takes two wavefronts, in rows of 32 bytes one.
TEST(BankUse, WordsAsAccumulatorsLie) {
  for (const int columns : {64, 96, 128}) {
    const LinearLayout sums = mma_m16n8k16_acc({128, columns}, 8, 1);
    const auto use = [&](int swizzle) {
      return *bank_use(*SharedLayout::swizzled({128, columns}, 4, {1, 0}, swizzle), sums);
    };
    EXPECT_EQ(use(128).wavefronts, 2 * use(128).phases);
    EXPECT_EQ(use(32).extra(), 0);
  }
}

TEST(BankUse, KnownCases) {
  const auto f32 = [](const SharedLayout& l, const LinearLayout& d) {
    return bank_use(l, d, 4)->extra();
  };
  const LinearLayout row = blocked({32, 32}, {1, 1}, {1, 32}, {1, 1}, {1, 0});
  const LinearLayout column = blocked({32, 32}, {1, 1}, {32, 1}, {1, 1}, {1, 0});
  const SharedLayout plain = SharedLayout::plain({32, 32}, 4, {1, 0});
  EXPECT_EQ(f32(plain, row), 0);
  EXPECT_EQ(f32(plain, column), 32 * 31);
  EXPECT_EQ(f32(SharedLayout::plain({32, 33}, 4, {1, 0}),
                blocked({32, 33}, {1, 1}, {32, 1}, {1, 1}, {1, 0})),
            0);
  const auto replicated = LinearLayout::parse(
      "lin<32x32; reg=[(0,1),(0,2),(0,4),(0,8),(0,16),(1,0),(2,0),(4,0),(8,0),(16,0)]; "
      "lane=[0,0,0,0,0]>");
  EXPECT_EQ(bank_use(plain, *replicated, 4)->extra(), 0);  // broadcast
}

TEST(CopyLayout, PadsWhereThatIsFewerCopiesAThread) {
  constexpr int kVector = 8, kWarps = 8;
  const auto copies = [](int rows, int columns) {
    return copy_layout({rows, columns}, 1, kVector, kWarps);
  };
  EXPECT_EQ(copies(128, 64).registers(), 4 * kVector);
  EXPECT_EQ(copies(144, 64).registers(), 5 * kVector) << "not nine by half of the warps";
  EXPECT_EQ(copies(136, 64).cover(), (Dims{160, 64}));
  EXPECT_TRUE(copies(128, 48).is_exact()) << "threads that pad columns would idle";
}

TEST(CopyLayout, RegistersThatPadInSomeThreadAreKnown) {
  const LinearLayout layout = copy_layout({144, 64}, 1, 8, 8);
  const std::vector<bool> padded = padded_registers(layout, 0);
  for (int r = 0; r < layout.registers(); ++r) {
    bool pads = false;
    for (int lane = 0; lane < 32; ++lane)
      for (int warp = 0; warp < 8; ++warp)
        pads |= layout.is_absent(layout.apply({.reg = r, .lane = lane, .warp = warp}));
    EXPECT_EQ(padded[static_cast<std::size_t>(r)], pads) << r;
  }
  EXPECT_EQ(std::ranges::count(padded, true), 8);
  EXPECT_EQ(std::ranges::count(padded_registers(layout, 1), true), 0);
}

}  // namespace
}  // namespace tegula::ir::layout_shared_test
