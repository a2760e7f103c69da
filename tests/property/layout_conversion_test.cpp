// Conversion plans, executed on the host exactly as a warp would, deliver every element; for
// thousands of random pairs.
#include <gtest/gtest.h>

#include <map>

#include "ir/layout/conversion.h"
#include "tests/property/layout_random.h"

namespace tegula::ir::layout_conversion_test {
namespace {

using testing::RandomLayouts;

constexpr int kLanes = 32, kGarbage = -1;

/// Registers of one CTA, by warp, lane, register; an element is known by its row-major number in a
/// padded tile.
using Registers = std::vector<std::vector<std::vector<int>>>;

Registers filled(const LinearLayout& l, bool garbage) {
  Registers out(static_cast<std::size_t>(l.size(HwDim::Warp)),
                std::vector<std::vector<int>>(
                    kLanes, std::vector<int>(static_cast<std::size_t>(l.registers()), kGarbage)));
  if (garbage) return out;
  for (int w = 0; w < l.size(HwDim::Warp); ++w)
    for (int t = 0; t < kLanes; ++t)
      for (int r = 0; r < l.registers(); ++r) {
        const Dims i = l.apply({r, t, w, 0});
        if (l.is_absent(i)) continue;
        int n = 0;
        for (int v : i) n = n * 1024 + v;
        out[static_cast<std::size_t>(w)][static_cast<std::size_t>(t)][static_cast<std::size_t>(r)] =
            n;
      }
  return out;
}

void swap_in(std::vector<std::vector<int>>& warp, const std::vector<LaneSwap>& swaps) {
  for (const LaneSwap& s : swaps)
    for (unsigned t = 0; t < kLanes; ++t) {
      if (__builtin_popcount(t & s.lanes) % 2 == 0) continue;
      auto& regs = warp[t];
      for (std::size_t r = 0; r < regs.size(); ++r)
        if (const auto other = r ^ static_cast<std::size_t>(s.flip); r < other)
          std::swap(regs[r], regs[other]);
    }
}

int source(const ShufflePlan& plan, int lane) {
  int out = 0;
  for (std::size_t b = 0; b < plan.source_of_bit.size(); ++b)
    if (lane >> b & 1) out ^= plan.source_of_bit[b];
  return out;
}

void run_shuffles(const ShufflePlan& plan, std::vector<std::vector<int>> from,
                  std::vector<std::vector<int>>& to) {
  swap_in(from, plan.before);
  for (const Shuffle& s : plan.shuffles)
    for (int t = 0; t < kLanes; ++t)
      for (std::size_t e = 0; e < s.from.size(); ++e)
        to[static_cast<std::size_t>(t)][static_cast<std::size_t>(s.to[e])] =
            from[static_cast<std::size_t>(source(plan, t) ^ s.lane_flip)].at(
                static_cast<std::size_t>(s.from[e]));
  swap_in(to, plan.after);
}

/// Every access of one side, element by element: vectors by address, matrices by the hardware's
/// definition.
template <class F>
void for_each_access(const SharedExchange& e, AccessForm form, const LinearLayout& l, F f) {
  const auto fn = shared_fn(e.layout, l);
  ASSERT_TRUE(fn);
  if (form == AccessForm::Vector) {
    for (int w = 0; w < l.size(HwDim::Warp); ++w)
      for (int t = 0; t < kLanes; ++t)
        for (int r = 0; r < l.registers(); ++r) f(w, t, r, (*fn)({r, t, w, 0}));
    return;
  }
  const auto plan = matrix_plan(e.layout, l, form == AccessForm::MatrixTransposed);
  ASSERT_TRUE(plan);
  const int bytes = e.layout.element_bytes(), per_word = 4 / bytes;
  for (int w = 0; w < l.size(HwDim::Warp); ++w)
    for (const auto& access : plan->accesses)
      for (int t = 0; t < kLanes; ++t)
        for (int m = 0; m < plan->matrices; ++m)
          for (int h = 0; h < per_word; ++h) {
            const int row = plan->transposed ? 2 * (t & 3) + h : t >> 2;
            const int column = plan->transposed ? 2 * (t >> 2) : 4 * (t & 3) + h * bytes;
            const auto base = plan->row_address(access, {0, 8 * m + row, w, 0});
            ASSERT_EQ(base % 16, 0);
            f(w, t, access.registers.at(static_cast<std::size_t>(m * per_word + h)), base + column);
          }
}

void run_shared(const SharedExchange& e, const LinearLayout& from, const LinearLayout& to,
                const Registers& source, Registers& target) {
  std::map<std::int64_t, int> memory;
  std::size_t written = 0, read = 0;
  for_each_access(e, e.write, from, [&](int w, int t, int r, std::int64_t address) {
    ASSERT_GE(address, 0);
    ASSERT_LE(address + e.layout.element_bytes(), e.layout.bytes());
    const int value = source[static_cast<std::size_t>(w)][static_cast<std::size_t>(t)]
                            [static_cast<std::size_t>(r)];
    const auto [it, fresh] = memory.try_emplace(address, value);
    ASSERT_TRUE(fresh || it->second == value || value == kGarbage || it->second == kGarbage)
        << "two elements in one place";
    if (value != kGarbage) {
      ASSERT_TRUE(fresh || it->second == value);
    }
    ++written;
  });
  for_each_access(e, e.read, to, [&](int w, int t, int r, std::int64_t address) {
    const auto it = memory.find(address);
    target[static_cast<std::size_t>(w)][static_cast<std::size_t>(t)][static_cast<std::size_t>(r)] =
        it == memory.end() ? kGarbage : it->second;
    ++read;
  });
  EXPECT_EQ(written, static_cast<std::size_t>(from.registers() * kLanes * from.size(HwDim::Warp)));
  EXPECT_EQ(read, static_cast<std::size_t>(to.registers() * kLanes * to.size(HwDim::Warp)));
}

void expect_converts(const LinearLayout& from, const LinearLayout& to, const Conversion& plan) {
  SCOPED_TRACE(from.str() + "\n   -> " + to.str());
  const Registers source = filled(from, false), want = filled(to, false);
  Registers got = filled(to, true);
  for (std::size_t w = 0; w < got.size(); ++w) {
    if (plan.kind == ConversionKind::Identity) got[w] = source[w];
    if (plan.kind == ConversionKind::Registers)
      for (std::size_t t = 0; t < kLanes; ++t)
        for (std::size_t r = 0; r < got[w][t].size(); ++r)
          got[w][t][r] = source[w][t].at(static_cast<std::size_t>(plan.registers.at(r)));
    if (plan.kind == ConversionKind::Shuffles) run_shuffles(plan.shuffle, source[w], got[w]);
  }
  if (plan.kind == ConversionKind::Shared) run_shared(*plan.shared, from, to, source, got);
  for (std::size_t w = 0; w < got.size(); ++w)
    for (std::size_t t = 0; t < kLanes; ++t)
      for (std::size_t r = 0; r < got[w][t].size(); ++r)
        if (want[w][t][r] != kGarbage) {
          ASSERT_EQ(got[w][t][r], want[w][t][r]) << w << ' ' << t << ' ' << r;
        }
}

ConversionOptions shared_only() {
  ConversionOptions o;
  o.allow_shuffles = false;
  return o;
}
ConversionOptions shuffles_only() {
  ConversionOptions o;
  o.allow_shared = false;
  return o;
}

/// Layouts of one warpgroup, and of three, an odd number of them.
class RandomConversion : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Warps, RandomConversion, ::testing::Values(4, 12),
                         ::testing::PrintToStringParamName());

TEST_P(RandomConversion, PairsArriveWhole) {
  RandomLayouts random(1, GetParam());
  std::map<ConversionKind, int> kinds;
  for (int i = 0; i < 6000 / GetParam(); ++i) {
    const Dims shape = random.shape();
    const LinearLayout from = random.layout(shape);
    const int kinship = random.pick(6);
    const LinearLayout to =
        kinship > 1 ? random.layout(shape) : random.shuffled_within(from, kinship == 0);
    const int bytes = 1 << random.pick(4);
    const auto plan = plan_conversion(from, to, bytes);
    if (!plan) FAIL() << plan.reason() << from.str() << to.str();
    ++kinds[plan->kind];
    expect_converts(from, to, *plan);
    if (HasFatalFailure()) return;
  }
  for (auto kind : {ConversionKind::Registers, ConversionKind::Shuffles, ConversionKind::Shared})
    EXPECT_GT(kinds[kind], 20) << static_cast<int>(kind);
}

TEST(Conversion, RandomMatricesByEveryWay) {
  RandomLayouts random(2);
  int shuffled = 0;
  for (int i = 0; i < 400; ++i) {
    const Dims shape{8 << random.pick(3), 32 << random.pick(2)};
    const LinearLayout from = random.scrambled(shape);
    // Warps keep their elements, so that shuffles suffice.
    LayoutSpec spec = random.shuffled(from).spec();
    spec.of(HwDim::Warp) = from.spec().of(HwDim::Warp);
    const LinearLayout to = random.pick(3) ? LinearLayout(spec) : random.scrambled(shape);
    const int bytes = 1 << random.pick(3);
    for (const auto& options : {shared_only(), shuffles_only(), ConversionOptions{}})
      if (const auto plan = plan_conversion(from, to, bytes, options)) {
        shuffled += plan->kind == ConversionKind::Shuffles;
        expect_converts(from, to, *plan);
        if (HasFatalFailure()) return;
      } else {
        EXPECT_FALSE(options.allow_shared) << plan.reason();
      }
  }
  EXPECT_GT(shuffled, 200);
}

TEST(Conversion, OddNumbersOfWarpsArriveWhole) {
  RandomLayouts random(12);
  for (int i = 0; i < 200; ++i) {
    const Dims shape{48 << random.pick(4), 8 * (1 + random.pick(16))};
    const std::array<LinearLayout, 5> all{
        wgmma_acc(shape[0], shape[1], 3), coalesced(shape, 8, 12, {1, 0}),
        coalesced(shape, 4, 12, {0, 1}), mma_m16n8k16_acc(shape, 3, 4),
        mma_m16n8k16_acc(shape, 12, 1)};
    const auto& from = all[static_cast<std::size_t>(random.pick(5))];
    const auto& to = all[static_cast<std::size_t>(random.pick(5))];
    const auto plan = plan_conversion(from, to, 1 << random.pick(3));
    ASSERT_TRUE(plan) << plan.reason() << from.str() << to.str();
    expect_converts(from, to, *plan);
    if (HasFatalFailure()) return;
  }
}

TEST(Conversion, AccumulatorToOperandIsFreeFor16Bit) {
  for (int n : {16, 48, 64, 128, 256}) {
    EXPECT_EQ(
        plan_conversion(wgmma_acc(64, n), mma_operand(Operand::A, {64, n}, 16, 4, 1), 2)->kind,
        ConversionKind::Identity);
    EXPECT_EQ(plan_conversion(mma_m16n8k16_acc({16, n}, 1, 1),
                              mma_operand(Operand::A, {16, n}, 16, 1, 1), 2)
                  ->kind,
              ConversionKind::Identity);
  }
}

TEST(Conversion, Fp8OperandNeedsOneShuffleARegister) {
  // gemm.md d2, method B: the lanes of a quad exchange bytes, one shuffle for each 32-bit register
  // of A.
  const LinearLayout from = wgmma_acc(64, 128), to = mma_operand(Operand::A, {64, 128}, 8, 4, 1);
  const auto plan = plan_conversion(from, to, 1, shuffles_only());
  ASSERT_TRUE(plan) << plan.reason();
  ASSERT_EQ(plan->kind, ConversionKind::Shuffles);
  EXPECT_EQ(plan->shuffle.crossings(), to.registers() / 4);
  expect_converts(from, to, *plan);
  EXPECT_EQ(plan_conversion(from, to, 1)->kind, ConversionKind::Shuffles);
}

TEST(Conversion, AccumulatorsReachRowsAtFullWidthWithoutConflicts) {
  for (int n : {16, 32, 64, 96, 128, 160, 192, 256}) {
    const LinearLayout from = wgmma_acc(64, n), to = coalesced({64, n}, 8, 4, {1, 0});
    const auto plan = plan_conversion(from, to, 2, shared_only());
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->kind, ConversionKind::Shared) << n;
    // 512 bytes per instruction each way, one of them by matrices: lanes of the two sides hold
    // different pairs.
    EXPECT_EQ(plan->shared->write_use.instructions, from.registers() * 4 * 64 / 512) << n;
    EXPECT_EQ(plan->shared->read_use.instructions, to.registers() * 4 * 64 / 512) << n;
    EXPECT_NE(plan->shared->write == AccessForm::Vector, plan->shared->read == AccessForm::Vector)
        << n;
    EXPECT_EQ(plan->shared->write_use.extra(), 0) << n << plan->shared->layout.str();
    EXPECT_EQ(plan->shared->read_use.extra(), 0) << n << plan->shared->layout.str();
    expect_converts(from, to, *plan);
  }
}

TEST(Conversion, TransposesWithoutConflicts) {
  // Row-wise vectors in, column-wise vectors out: no vector is common to both, yet no access need
  // conflict.
  for (int bytes : {1, 2, 4})
    for (const Dims& shape : {Dims{64, 64}, Dims{128, 32}, Dims{32, 256}}) {
      const LinearLayout from = coalesced(shape, 16 / bytes, 4, {1, 0}),
                         to = coalesced(shape, 16 / bytes, 4, {0, 1});
      ConversionOptions plain = shared_only();
      plain.exchange.ldmatrix = plain.exchange.stmatrix = false;
      const auto plan = plan_conversion(from, to, bytes, plain);
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->shared->write_use.extra() + plan->shared->read_use.extra(), 0)
          << bytes << from.str() << to.str() << plan->shared->layout.str();
      expect_converts(from, to, *plan);
    }
}

TEST(Conversion, ExplainsRejections) {
  const LinearLayout a = coalesced({64, 64}, 8, 4, {1, 0}), b = coalesced({64, 64}, 8, 4, {0, 1});
  EXPECT_EQ(plan_conversion(a, coalesced({64, 32}, 8, 4, {1, 0}), 2).reason(), "the shapes differ");
  EXPECT_EQ(plan_conversion(a, b, 2, shuffles_only()).reason(),
            "elements change threads, and no allowed way moves them");
}

}  // namespace
}  // namespace tegula::ir::layout_conversion_test
