// Pairs of element types of which one holds all values of the other.
#include "ir/cast_mode.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/eval/cell.h"

namespace tegula::ir::cast_mode_test {
namespace {

/// Every value of a type of at most 16 bits.
bool holds_each(DType to, DType from) {
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << size_bits(from); ++bits) {
    const Cell c = from_bits(bits, from);
    const double v = is_float(from) ? c.f : static_cast<double>(c.i);
    if (std::isnan(v)) {
      if (!is_float(to)) return false;
      continue;
    }
    if (is_float(to)) {
      if (from_bits(to_bits(Cell{.f = v}, to), to).f != v) return false;
    } else if (v != std::trunc(v) || std::isinf(v) || (v < 0 && !is_signed(to)) ||
               canonical(Cell{.i = static_cast<std::int64_t>(v)}, to).i != c.i) {
      return false;
    }
  }
  return true;
}

TEST(CastMode, HoldsAllAgreesWithEveryValueOfNarrowTypes) {
  for (const DTypeInfo& from : kDTypeInfo)
    for (const DTypeInfo& to : kDTypeInfo) {
      if (from.bits > 16) continue;
      EXPECT_EQ(holds_all(to.dtype, from.dtype), holds_each(to.dtype, from.dtype))
          << from.name << " to " << to.name;
    }
}

TEST(CastMode, HoldsAllOfTheWideTypes) {
  using enum DType;
  for (auto [from, to] : {std::pair{f32, f64}, {i32, f64}, {u32, f64}, {u32, i64}, {f64, f64}})
    EXPECT_TRUE(holds_all(to, from)) << name(from) << " to " << name(to);
  for (auto [from, to] : {std::pair{f64, f32},
                          {f32, bf16},
                          {i32, f32},
                          {i64, f64},
                          {u64, i64},
                          {i32, u64},
                          {f32, i64}})
    EXPECT_FALSE(holds_all(to, from)) << name(from) << " to " << name(to);
}

TEST(CastMode, SatHasNoEffectWithoutOverflow) {
  AttrList sat;
  sat.set(AttrName::sat, AttrValue(std::int64_t{1}));
  EXPECT_FALSE(cast_mode(sat, DType::f8e5m2, DType::f16).saturate);
  EXPECT_TRUE(cast_mode(sat, DType::f16, DType::f8e5m2).saturate);
  EXPECT_FALSE(cast_mode({}, DType::f16, DType::f8e5m2).saturate);
}

}  // namespace
}  // namespace tegula::ir::cast_mode_test
