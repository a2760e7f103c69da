// Laws of the algebra over random layouts: inverses, maps between places, text.
#include <gtest/gtest.h>

#include <set>

#include "ir/layout/conversion.h"
#include "tests/property/layout_random.h"

namespace tegula::ir::layout_laws_test {
namespace {

using testing::RandomLayouts;

/// Layouts of one warpgroup, and of three, an odd number of them.
class LayoutLaws : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Warps, LayoutLaws, ::testing::Values(4, 12),
                         ::testing::PrintToStringParamName());

TEST_P(LayoutLaws, InverseComposesToIdentity) {
  RandomLayouts random(7, GetParam());
  int bijective = 0;
  for (int i = 0; i < 2000; ++i) {
    const LinearLayout l = i % 2 ? random.layout(random.shape()) : random.scrambled({16, 64});
    const BitMatrix m = l.matrix();
    const auto inverse = m.right_inverse();
    ASSERT_TRUE(inverse) << l.str();
    ASSERT_EQ(m * *inverse, BitMatrix::identity(m.outputs()));
    if (l.is_bijective()) {
      ASSERT_EQ(*inverse * m, BitMatrix::identity(m.inputs()));
    }
    bijective += l.is_bijective();
    ASSERT_EQ(m.rank() + static_cast<int>(m.kernel().size()), m.inputs());
    for (BitVector v : m.kernel()) ASSERT_EQ(m(v), 0u);
    ASSERT_EQ(static_cast<int>(m.image().size()), m.rank());
    int free = 0;
    for (HwDim in : kIns) free += std::popcount(l.free_bits(in));
    ASSERT_EQ(free, m.inputs() - m.rank());
  }
  EXPECT_GT(bijective, 300);
}

TEST_P(LayoutLaws, PlaceMapsComposeToTheTarget) {
  RandomLayouts random(8, GetParam());
  int mapped = 0;
  for (int i = 0; i < 1000; ++i) {
    const Dims shape = random.shape();
    const LinearLayout a = random.layout(shape), b = random.layout(shape);
    const auto map = coord_map(a, b);
    if (!map) continue;
    ++mapped;
    ASSERT_EQ(a.matrix() * map->matrix, b.matrix()) << a.str() << b.str();
    const auto self = coord_map(a, a);
    ASSERT_TRUE(self);
    if (a.is_bijective()) {
      ASSERT_EQ(self->matrix, BitMatrix::identity(a.matrix().inputs()));
    }
    ASSERT_EQ(plan_conversion(a, a, 4)->kind, ConversionKind::Identity);
  }
  EXPECT_GT(mapped, 300);
}

TEST_P(LayoutLaws, TextIsExact) {
  RandomLayouts random(9, GetParam());
  for (int i = 0; i < 3000; ++i) {
    const LinearLayout l = i % 3 ? random.layout(random.shape()) : random.scrambled({8, 8, 8, 4});
    const auto parsed = LinearLayout::parse(l.str());
    ASSERT_TRUE(parsed) << parsed.reason() << l.str();
    ASSERT_EQ(*parsed, l);
    ASSERT_EQ(parsed->str(), l.str());
  }
}

TEST(Subspaces, MeetOnlyWhereTheyMust) {
  std::mt19937_64 rng(10);
  for (int i = 0; i < 3000; ++i) {
    const int n = 3 + static_cast<int>(rng() % 14);
    BitBasis a, b;
    for (auto* list : {&a, &b})
      for (unsigned k = rng() % static_cast<unsigned>(n); k > 0; --k)
        list->push_back(rng() & ((BitVector{1} << n) - 1));
    const int rank_a = Echelon(a).rank(), rank_b = Echelon(b).rank();
    const BitBasis c = common_complement(a, b, n), meet = intersection(a, b);
    ASSERT_EQ(static_cast<int>(c.size()), n - std::max(rank_a, rank_b));
    ASSERT_EQ(Echelon(c).rank(), static_cast<int>(c.size()));
    ASSERT_TRUE(intersection(a, c).empty() && intersection(b, c).empty());
    BitBasis sum = a;
    sum.insert(sum.end(), b.begin(), b.end());
    ASSERT_EQ(static_cast<int>(meet.size()), rank_a + rank_b - Echelon(sum).rank());
    for (BitVector v : meet) ASSERT_TRUE(Echelon(a).contains(v) && Echelon(b).contains(v));
  }
}

}  // namespace
}  // namespace tegula::ir::layout_laws_test
