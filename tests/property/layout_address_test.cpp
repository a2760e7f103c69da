// Address functions, vectors and bank counts agree with evaluating the layouts element by element.
#include <gtest/gtest.h>

#include <set>

#include "ir/layout/bank_conflicts.h"
#include "ir/layout/shared_layout.h"
#include "ir/layout/thread_fn.h"
#include "tests/property/layout_random.h"

namespace tegula::ir::layout_address_test {
namespace {

using testing::RandomLayouts;

/// Layouts of one warpgroup, and of three, an odd number of them.
class Address : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Warps, Address, ::testing::Values(4, 12),
                         ::testing::PrintToStringParamName());

template <class F>
void for_each_place(const LinearLayout& l, F f) {
  for (int w = 0; w < l.size(HwDim::Warp); ++w)
    for (int t = 0; t < l.size(HwDim::Lane); ++t)
      for (int r = 0; r < l.registers(); ++r) f(HardwareCoord{r, t, w, 0});
}

SharedLayout random_shared(RandomLayouts& random, const Dims& shape, int bytes) {
  const Dims order = random.pick(2) ? Dims{1, 0} : Dims{0, 1};
  const auto l =
      SharedLayout::swizzled(shape, bytes, order, 32 << random.pick(3),
                             random.pick(2) ? SegmentRule::WidestFirst : SegmentRule::Equal);
  return l && random.pick(5) ? *l : SharedLayout::plain(shape, bytes, order);
}

/// The machine's count, straight from its description: no linearity used.
BankUse brute_force(const SharedLayout& shared, const LinearLayout& dist,
                    const std::vector<Vector>& vectors) {
  BankUse use;
  for (int w = 0; w < dist.size(HwDim::Warp); ++w)
    for (const Vector& v : vectors) {
      ++use.instructions;
      const int bytes = static_cast<int>(v.registers.size()) * shared.element_bytes();
      const int lanes = bytes == 16 ? 8 : bytes == 8 ? 16 : 32;
      for (int first = 0; first < 32; first += lanes) {
        std::array<std::set<std::int64_t>, 32> words;
        for (int t = first; t < first + lanes; ++t)
          for (int r : v.registers) {
            const auto offset = shared.offset(dist.apply({r, t, w, 0}));
            for (auto word = offset / 4; word * 4 < offset + shared.element_bytes(); ++word)
              words[static_cast<std::size_t>(word % 32)].insert(word);
          }
        std::size_t most = 0;
        for (const auto& bank : words) most = std::max(most, bank.size());
        use.wavefronts += static_cast<int>(most);
        ++use.phases;
      }
    }
  return use;
}

TEST_P(Address, IndexFunctionsAreTheLayout) {
  RandomLayouts random(3, GetParam());
  int additive = 0, not_additive = 0;
  for (int i = 0; i < 400; ++i) {
    const Dims shape = random.shape();
    const LinearLayout l = i % 4 == 0   ? random.scrambled({32, 64})
                           : i % 4 == 1 ? wgmma_acc(192, shape[1], 3)
                                        : random.layout(shape);
    for (int dim : {0, 1}) {
      const IndexFn fn = index_fn(l, dim);
      (fn.is_additive ? additive : not_additive)++;
      for_each_place(l, [&](const HardwareCoord& p) {
        const int want = l.apply(p)[dim];
        ASSERT_EQ(fn(p), want);
        if (fn.is_additive) {
          ASSERT_EQ(fn.thread(p) + fn.constant(p.reg), want);
        }
      });
    }
  }
  EXPECT_GT(additive, 100);
  EXPECT_GT(not_additive, 50);
}

TEST_P(Address, ShiftsAndMultiplesSpellTheSameFunction) {
  RandomLayouts random(4, GetParam());
  for (int i = 0; i < 300; ++i) {
    const Dims shape = random.shape();
    const LinearLayout l = i % 3 ? random.layout(shape) : random.scrambled({16, 128});
    const auto fn = shared_fn(random_shared(random, l.shape(), 2), l);
    if (!fn) continue;
    for (const ThreadOffset& slab : fn->slabs)
      for (int w = 0; w < l.size(HwDim::Warp); ++w)
        for (int t = 0; t < 32; ++t) {
          const HardwareCoord p{0, t, w, 0};
          std::int64_t flips = 0, ors = 0, sum = 0;
          for (const auto& s : slab.shifts()) {
            const auto part = static_cast<std::uint32_t>(p[s.in]) & s.mask;
            const auto value = s.shift >= 0 ? part << s.shift : part >> -s.shift;
            flips ^= value;
            ors |= value;
          }
          for (const auto& m : slab.multiples())
            sum += ((static_cast<std::uint32_t>(p[m.in]) & m.mask) >> std::countr_zero(m.mask)) *
                   m.factor;
          for (const auto& d : slab.digits) sum += p[d.in] / d.divisor % d.count * d.stride;
          ASSERT_EQ(flips + sum, slab(p));
          if (slab.is_disjoint()) {
            ASSERT_EQ(flips, ors);
          }
        }
  }
}

TEST_P(Address, SharedFunctionsVectorsAndBanks) {
  RandomLayouts random(5, GetParam());
  int formed = 0, refused = 0, conflicting = 0;
  std::set<std::size_t> widths;
  for (int i = 0; i < 1200; ++i) {
    const Dims shape = i % 5 ? random.shape() : Dims{8 << random.pick(3), 32};
    const LinearLayout l = i % 5 ? random.layout(shape) : random.scrambled(shape);
    const int bytes = 1 << random.pick(4);
    const SharedLayout shared = random_shared(random, shape, bytes);
    const auto fn = shared_fn(shared, l);
    if (!fn) {
      EXPECT_FALSE(fn.reason().empty());
      ++refused;
      continue;
    }
    ++formed;
    SCOPED_TRACE(shared.str() + " " + l.str());
    for_each_place(l, [&](const HardwareCoord& p) {
      if (l.is_absent(l.apply(p))) return;
      ASSERT_EQ((*fn)(p), shared.offset(l.apply(p)));
      const auto cut = fn->cut(p.reg);
      const auto& reg = fn->registers[static_cast<std::size_t>(p.reg)];
      const ThreadOffset& thread = fn->slabs[static_cast<std::size_t>(reg.slab)];
      const auto flips = ThreadOffset{thread.bits, {}};
      std::int64_t adds = 0, flipped = 0;
      for (const ThreadBit& b : flips.bits)
        if (p[b.in] >> b.bit & 1) adds += b.add, flipped ^= b.flip;
      for (const ThreadDigit& d : thread.digits) adds += p[d.in] / d.divisor % d.count * d.stride;
      ASSERT_EQ((flipped ^ cut.flip) + adds + cut.constant, (*fn)(p));
    });
    const int max_bytes = std::max(bytes, 4 << random.pick(3));
    const auto vectors = shared_vectors(*fn, shared, max_bytes);
    ASSERT_TRUE(vectors);
    std::set<int> seen;
    for (const Vector& v : *vectors) {
      widths.insert(v.registers.size() * static_cast<std::size_t>(bytes));
      const auto width = static_cast<std::int64_t>(v.registers.size()) * bytes;
      for (std::size_t e = 0; e < v.registers.size(); ++e) {
        ASSERT_TRUE(seen.insert(v.registers[e]).second);
        for (int t : {0, 1, 7, 31})
          for (int w = 0; w < l.size(HwDim::Warp); ++w) {
            const auto first = (*fn)({v.registers[0], t, w, 0});
            ASSERT_EQ(first % width, 0);
            ASSERT_EQ((*fn)({v.registers[e], t, w, 0}),
                      first + static_cast<std::int64_t>(e) * bytes);
          }
      }
    }
    ASSERT_EQ(static_cast<int>(seen.size()), l.registers());
    if (!l.is_exact()) continue;
    const BankUse want = brute_force(shared, l, *vectors);
    const auto got = bank_use(shared, l, max_bytes);
    ASSERT_TRUE(got);
    ASSERT_EQ(got->wavefronts, want.wavefronts);
    ASSERT_EQ(*got, want);
    conflicting += want.extra() > 0;
  }
  EXPECT_GT(formed, 600);
  EXPECT_GT(refused, 5);
  EXPECT_GT(conflicting, 100);
  EXPECT_EQ(widths, (std::set<std::size_t>{1, 2, 4, 8, 16}));
}

TEST_P(Address, GlobalVectorsAreContiguousAndAligned) {
  RandomLayouts random(6, GetParam());
  std::set<std::size_t> widths;
  for (int i = 0; i < 400; ++i) {
    const Dims shape = random.shape();
    const LinearLayout l = random.layout(shape);
    for (int dim : {0, 1})
      for (int limit : {1, 4, 8}) {
        const auto vectors = global_vectors(l, dim, limit);
        int count = 0;
        for (const Vector& v : vectors) {
          ASSERT_LE(static_cast<int>(v.registers.size()), limit);
          widths.insert(v.registers.size());
          count += static_cast<int>(v.registers.size());
          for (int t = 0; t < 32; ++t) {
            const Dims first = l.apply({v.registers[0], t, 1, 0});
            ASSERT_EQ(first[dim] % static_cast<int>(v.registers.size()), 0);
            for (std::size_t e = 1; e < v.registers.size(); ++e) {
              Dims want = first;
              want[dim] += static_cast<int>(e);
              ASSERT_EQ(l.apply({v.registers[e], t, 1, 0}), want);
            }
          }
        }
        ASSERT_EQ(count, l.registers());
      }
  }
  EXPECT_EQ(widths, (std::set<std::size_t>{1, 2, 4, 8}));
  EXPECT_EQ(global_vectors(coalesced({64, 64}, 8, 4, {1, 0}), 1, 8)[0].registers.size(), 8u);
  EXPECT_EQ(global_vectors(wgmma_acc(64, 64), 1, 8)[0].registers.size(), 2u);
}

}  // namespace
}  // namespace tegula::ir::layout_address_test
