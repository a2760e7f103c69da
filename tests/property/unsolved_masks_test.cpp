// Masks with terms that are not affine, or whose 32-bit sums wrap around, compared for every pair:
// a block that is not solved exactly is never classified as full or empty.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "dsl/block_mask/derived_block_lists.h"
#include "dsl/functions/traced_function.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"
#include "tools/workload/mask_ranges.h"
#include "tools/workload/traced_mask.h"

namespace tegula::unsolved_masks_test {
using namespace kernels;
namespace {

/// An i32 on the host that wraps around as in a kernel.
struct Wrapping {
  std::int32_t v;

  static Wrapping of(std::uint32_t bits) { return {static_cast<std::int32_t>(bits)}; }
  std::uint32_t bits() const { return static_cast<std::uint32_t>(v); }
  friend Wrapping operator+(Wrapping a, Wrapping b) { return of(a.bits() + b.bits()); }
  friend Wrapping operator-(Wrapping a, Wrapping b) { return of(a.bits() - b.bits()); }
  friend Wrapping operator*(Wrapping a, Wrapping b) { return of(a.bits() * b.bits()); }
  friend Wrapping operator/(Wrapping a, Wrapping b) { return {a.v / b.v}; }
  friend Wrapping operator%(Wrapping a, Wrapping b) { return {a.v % b.v}; }
  friend Wrapping operator+(Wrapping a, std::int32_t b) { return a + Wrapping{b}; }
  friend Wrapping operator*(Wrapping a, std::int32_t b) { return a * Wrapping{b}; }
  friend Wrapping operator/(Wrapping a, std::int32_t b) { return a / Wrapping{b}; }
  friend Wrapping operator%(Wrapping a, std::int32_t b) { return a % Wrapping{b}; }
  friend Wrapping operator-(Wrapping a) { return Wrapping{0} - a; }
  friend Wrapping operator-(Wrapping a, std::int32_t b) { return a - Wrapping{b}; }
  friend Wrapping operator>>(Wrapping a, int by) { return {a.v >> by}; }
  friend Wrapping operator&(Wrapping a, std::int32_t b) { return {a.v & b}; }
  friend Wrapping abs(Wrapping a) { return a.v < 0 ? -a : a; }
  friend Wrapping min(Wrapping a, Wrapping b) { return a.v < b.v ? a : b; }
  friend Wrapping max(Wrapping a, Wrapping b) { return a.v < b.v ? b : a; }
  friend bool operator<(Wrapping a, Wrapping b) { return a.v < b.v; }
  friend bool operator<=(Wrapping a, Wrapping b) { return a.v <= b.v; }
  friend bool operator>=(Wrapping a, Wrapping b) { return a.v >= b.v; }
  friend bool operator<(Wrapping a, std::int32_t b) { return a.v < b; }
  friend bool operator>=(Wrapping a, std::int32_t b) { return a.v >= b; }
  friend bool operator==(Wrapping a, Wrapping b) { return a.v == b.v; }
  friend bool operator==(Wrapping a, std::int32_t b) { return a.v == b; }
};

/// A mask and the same function on the host.
struct Case {
  std::string name;
  Mask mask;
  std::function<bool(int q, int kv)> seen;
};

template <class F>
Case of(std::string name, F f) {
  return {std::move(name), [f](Tile, Tile, Tile q, Tile kv) { return f(q, kv); },
          [f](int q, int kv) { return f(Wrapping{q}, Wrapping{kv}); }};
}

constexpr std::int32_t kNearlyMost = 2147483600, kLarge = 50000000, kLeast = -2147483647 - 1;

std::vector<Case> unsolved() {
  return {
      of("q * kv < 900", [](auto q, auto kv) { return q * kv < 900; }),
      of("q * kv >= 900", [](auto q, auto kv) { return q * kv >= 900; }),
      of("q * q >= kv * kv", [](auto q, auto kv) { return q * q >= kv * kv; }),
      of("(q - 40) * (kv - 40) < 0", [](auto q, auto kv) { return (q + -40) * (kv + -40) < 0; }),
      of("q / (kv + 1) < 2", [](auto q, auto kv) { return q / (kv + 1) < 2; }),
      of("kv / (q + 1) >= 1", [](auto q, auto kv) { return kv / (q + 1) >= 1; }),
      of("q % 7 < 3", [](auto q, auto) { return q % 7 < 3; }),
      of("kv % 7 < 3", [](auto, auto kv) { return kv % 7 < 3; }),
      of("(kv + q) % 7 < 6", [](auto q, auto kv) { return (kv + q) % 7 < 6; }),
      of("kv % 7 >= q % 5", [](auto q, auto kv) { return kv % 7 >= q % 5; }),
      of("kv / 7 * q < 60", [](auto q, auto kv) { return kv / 7 * q < 60; }),
      of("kv + most < 0", [](auto, auto kv) { return kv + kNearlyMost < 0; }),
      of("q + kv + most >= 0", [](auto q, auto kv) { return q + kv + kNearlyMost >= 0; }),
      of("q * large < 0", [](auto q, auto) { return q * kLarge < 0; }),
      of("kv * large >= q", [](auto q, auto kv) { return kv * kLarge >= q; }),
      of("q * kv * large < 7", [](auto q, auto kv) { return q * kv * kLarge < 7; }),
      of("(q - 40) / (kv % 5 - 7) <= 1",
         [](auto q, auto kv) { return (q + -40) / (kv % 5 + -7) < 2; }),
      of("(q - 40) % (kv % 3 - 5) < 0",
         [](auto q, auto kv) { return (q + -40) % (kv % 3 + -5) < 0; }),
      of("(q - kv) / -3 < 4", [](auto q, auto kv) { return (q - kv) / -3 < 4; }),
      of("(q - kv) % -7 < 2", [](auto q, auto kv) { return (q - kv) % -7 < 2; }),
      of("(q - 40) % 7 <= kv - 60", [](auto q, auto kv) { return (q + -40) % 7 <= kv + -60; }),
      of("(kv - 50) / 7 * 7 < q - 40",
         [](auto q, auto kv) { return (kv + -50) / 7 * 7 < q + -40; }),
      of("(q - kv) >> 3 < 2", [](auto q, auto kv) { return ((q - kv) >> 3) < 2; }),
      of("(q - kv) & 15 < 9", [](auto q, auto kv) { return ((q - kv) & 15) < 9; }),
      of("(q - 40) & 63 >= kv", [](auto q, auto kv) { return ((q + -40) & 63) >= kv; }),
      of("(q - kv) & 15 < 1", [](auto q, auto kv) { return ((q - kv) & 15) < 1; }),
      of("(q - kv + 1) / 8 < 2", [](auto q, auto kv) { return (q - kv + 1) / 8 < 2; }),
      of("q / 2 * 8 * large >= kv", [](auto q, auto kv) { return q / 2 * (8 * kLarge) >= kv; }),
      of("q == kv", [](auto q, auto kv) { return q == kv; }),
      of("abs(q - kv) < 2", [](auto q, auto kv) { return abs(q - kv) < 2; }),
      of("-(kv + least) < q", [](auto q, auto kv) { return -(kv + kLeast) < q; }),
      of("abs(q * kv + least) < 0", [](auto q, auto kv) { return abs(q * kv + kLeast) < 0; }),
      of("abs(q - kv) < 30", [](auto q, auto kv) { return abs(q - kv) < 30; }),
      of("min(q * 3, kv) - max(kv, 90 - q) < 0",
         [](auto q, auto kv) { return min(q * 3, kv) - max(kv, -(q + -90)) < 0; }),
      of("kv * large / large == kv", [](auto, auto kv) { return kv * kLarge / kLarge - kv == 0; }),
  };
}
std::vector<Case> affine() {
  return {of("q >= kv", [](auto q, auto kv) { return q >= kv; }),
          of("kv < 50", [](auto, auto kv) { return kv < 50; }),
          of("q - kv < 20", [](auto q, auto kv) { return q - kv < 20; }),
          of("kv / 16 <= q / 16", [](auto q, auto kv) { return kv / 16 <= q / 16; })};
}

Case both(const Case& a, const Case& b) {
  return {"(" + a.name + " && " + b.name + ")", masks::and_(a.mask, b.mask),
          [a = a.seen, b = b.seen](int q, int kv) { return a(q, kv) && b(q, kv); }};
}
Case either(const Case& a, const Case& b) {
  return {"(" + a.name + " || " + b.name + ")", masks::or_(a.mask, b.mask),
          [a = a.seen, b = b.seen](int q, int kv) { return a(q, kv) || b(q, kv); }};
}
Case negated(const Case& a) {
  return {"!" + a.name, masks::not_(a.mask), [a = a.seen](int q, int kv) { return !a(q, kv); }};
}

/// Visibility of a block: of all pairs, and of at least one.
struct Pairs {
  bool all = true, any = false;

  Pairs(const Case& c, int q0, int q1, int kv0, int kv1) {
    for (int q = q0; q < q1; ++q)
      for (int kv = kv0; kv < kv1; ++kv) (c.seen(q, kv) ? any : all) = c.seen(q, kv);
  }
};

constexpr int kQueries = 75, kKeys = 109;  // not multiples of a block

/// Counts the blocks that are decided.
int check_blocks(const Case& c) {
  const TracedMask traced = trace_mask(c.mask);
  ir::MaskBlocks blocks(traced.expr);
  const ir::MaskClosedForm form = ir::solve_mask(traced.expr);
  MaskRanges ranges(form);
  int decided = 0;
  for (int q0 = 0; q0 < kQueries; q0 += 16) {
    const int q1 = std::min(q0 + 16, kQueries);
    const KvVisibility cover = ranges.cover({0, 0, q0, q1, kKeys}, traced.params());
    for (int kv0 = 0; kv0 < kKeys; kv0 += 16) {
      const int kv1 = std::min(kv0 + 16, kKeys);
      const Pairs truth(c, q0, q1, kv0, kv1);
      for (const ir::BlockCoverage is :
           {blocks.classify({0, 0, q0, q1, kv0, kv1}, traced.params()), cover.of(kv0, kv1)}) {
        EXPECT_FALSE(is == ir::BlockCoverage::Full && !truth.all)
            << c.name << ' ' << q0 << ' ' << kv0;
        EXPECT_FALSE(is == ir::BlockCoverage::Empty && truth.any)
            << c.name << ' ' << q0 << ' ' << kv0;
        decided += is != ir::BlockCoverage::Partial;
      }
    }
  }
  return decided;
}

/// Counts the blocks that a list made by kernels decides.
int check_lists(const Case& c) {
  const Tensor Q = Tensor::zeros({1, 1, kQueries, 1}, DType::bf16, Device::cpu()),
               K = Tensor::zeros({1, 1, kKeys, 1}, DType::bf16, Device::cpu());
  const BlockListArgs lists =
      DerivedBlockLists(trace_mask_function(c.mask))
          .make(Stream(Device::cpu()), Q, K, {.block_q = 16, .block_kv = 16}, {});
  const auto counts = lists.counts.to_vector<i32>(), full = lists.full.to_vector<i32>();
  int decided = 0;
  for (int row = 0; row * 16 < kQueries; ++row) {
    const auto entries = lists.blocks.select(0, 0).select(0, 0).select(0, row).to_vector<i32>();
    const auto at = static_cast<std::size_t>(row), n_full = static_cast<std::size_t>(full[at]),
               n_masked = static_cast<std::size_t>(counts[at]) - n_full;
    for (int n = 0; n * 16 < kKeys; ++n) {
      const auto is_masked = std::find(entries.end() - static_cast<std::ptrdiff_t>(n_masked),
                                       entries.end(), n) != entries.end();
      const auto front = entries.begin() + static_cast<std::ptrdiff_t>(n_full);
      const bool is_full = std::find(entries.begin(), front, n) != front;
      const Pairs truth(c, row * 16, std::min(row * 16 + 16, kQueries), n * 16,
                        std::min(n * 16 + 16, kKeys));
      EXPECT_FALSE(is_full && !truth.all) << c.name << ' ' << row << ' ' << n;
      EXPECT_FALSE(!is_full && !is_masked && truth.any) << c.name << ' ' << row << ' ' << n;
      decided += is_full || !is_masked;
    }
  }
  return decided;
}

/// The ranges that a kernel records for rows [first, last].
class Recorded {
 public:
  explicit Recorded(const Mask& mask) : kernel_(make(mask, counts_)) {}

  struct Range {
    int lo, hi;
  };
  struct Ranges {
    std::vector<Range> visible, full;
  };
  Ranges operator()(int first, int last) const {
    const Tensor out = Tensor::empty({kEnds}, DType::i32, Device::cpu());
    kernel_(first, last, kKeys, out);
    const auto ends = out.to_vector<i32>();
    Ranges r;
    for (std::size_t i = 0; i < counts_->visible + counts_->full; ++i)
      (i < counts_->visible ? r.visible : r.full).push_back({ends[2 * i], ends[2 * i + 1]});
    return r;
  }

 private:
  static constexpr int kEnds = 32;
  struct Counts {
    std::size_t visible = 0, full = 0;
  };

  using Kernel = KernelOf<Scalar<i32>, Scalar<i32>, Scalar<i32>, Out<i32, 1>>;
  static Kernel make(const Mask& mask, const std::shared_ptr<Counts>& counts) {
    return kernel(
        "recorded", [blocks = BlockMask(mask), counts](Scalar<i32> first, Scalar<i32> last,
                                                       Scalar<i32> length, Out<i32, 1> out) {
          for (auto i : grid(out, 1)) {
            const KvRanges keys = blocks.record(first, last, length);
            std::vector<KvRange> visible = keys.visible_intervals, full_ones = keys.full_intervals;
            if (visible.empty())
              visible.push_back(keys.visible.value_or(KvRange{full<i32>(0), length}));
            if (keys.visible_intervals.empty() && keys.full) full_ones.push_back(*keys.full);
            *counts = {visible.size(), full_ones.size()};
            visible.insert(visible.end(), full_ones.begin(), full_ones.end());
            Tile end = full<i32>(0);
            for (int n = 0; n < static_cast<int>(visible.size()); ++n) {
              const KvRange& r = visible[static_cast<std::size_t>(n)];
              end = where(i == 2 * n, r.lo, where(i == 2 * n + 1, r.hi, end));
            }
            out(i) = end;
          }
        });
  }

  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  Kernel kernel_;
};

/// Counts the keys that are known to be visible, and those known to be hidden.
int check_recorded(const Case& c) {
  const Recorded recorded(c.mask);
  int known = 0;
  for (const int first : {0, 16, 64}) {
    const int last = std::min(first + 15, kQueries - 1);
    const Recorded::Ranges r = recorded(first, last);
    for (int kv = 0; kv < kKeys; ++kv) {
      const auto in_bounds = [&](const Recorded::Range& x) { return x.lo <= kv && kv < x.hi; };
      const bool may_see = std::ranges::any_of(r.visible, in_bounds),
                 all_see = std::ranges::any_of(r.full, in_bounds);
      const Pairs truth(c, first, last + 1, kv, kv + 1);
      EXPECT_FALSE(!may_see && truth.any) << c.name << ' ' << first << ' ' << kv;
      EXPECT_FALSE(all_see && !truth.all) << c.name << ' ' << first << ' ' << kv;
      known += !may_see || all_see;
    }
  }
  return known;
}

TEST(UnsolvedMasks, AreNeverTakenForAffineOnes) {
  for (const Case& c : unsolved())
    for (const Case& is : {c, negated(c)}) {
      check_blocks(is);
      check_recorded(is);
    }
}

TEST(UnsolvedMasks, InListsThatKernelsMake) {
  int decided = 0;
  for (const Case& c : unsolved())
    for (const Case& is : {c, negated(c)}) decided += check_lists(is);
  EXPECT_GT(decided, 300);
}

/// -2^31 / -1 does not fit 32 bits.
TEST(UnsolvedMasks, QuotientsIn64Bits) {
  const Scalar<i32> n = -1;
  const Mask mask = [=](Tile, Tile, Tile q, Tile kv) {
    return cast<i64>(q + kv + kLeast) / cast<i64>(n.value()) <= 2147483647;
  };
  check_lists({"i64(q + kv + least) / i64(n) <= most", mask,
               [](int q, int kv) { return q > 0 || kv > 0; }});
}

TEST(UnsolvedMasks, KeepSolvedConditions) {
  int blocks = 0, keys = 0;
  for (const Case& a : unsolved())
    for (const Case& b : affine())
      for (const Case& c : {both(a, b), either(a, negated(b))}) {
        blocks += check_blocks(c);
        keys += check_recorded(c);
      }
  EXPECT_GT(blocks, 2000);
  EXPECT_GT(keys, 5000);
}

TEST(UnsolvedMasks, InRandomCompositions) {
  std::mt19937 random(7);
  std::vector<Case> all = unsolved();
  for (const Case& c : affine()) all.push_back(c);
  const auto draw = [&] { return all[random() % all.size()]; };
  for (int i = 0; i < 60; ++i) {
    Case c = random() % 2 ? draw() : negated(draw());
    for (int n = 0; n < 3; ++n) c = random() % 2 ? both(c, draw()) : either(negated(c), draw());
    check_blocks(c);
    check_recorded(c);
  }
}

}  // namespace
}  // namespace tegula::unsolved_masks_test
