#include "tegula/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tegula::dtype_test {
namespace {

/// The facts of a format, written down once more and independently of dtype.h.
template <class T>
struct Format;
template <>
struct Format<f16> {
  static constexpr int exponent = 5, mantissa = 10, bias = 15;
  static constexpr unsigned largest = 0x7bff, above_largest = 0x7c00;
};
template <>
struct Format<bf16> {
  static constexpr int exponent = 8, mantissa = 7, bias = 127;
  static constexpr unsigned largest = 0x7f7f, above_largest = 0x7f80;
};
template <>
struct Format<f8e4m3> {
  static constexpr int exponent = 4, mantissa = 3, bias = 7;
  static constexpr unsigned largest = 0x7e, above_largest = 0x7e;
};
template <>
struct Format<f8e5m2> {
  static constexpr int exponent = 5, mantissa = 2, bias = 15;
  static constexpr unsigned largest = 0x7b, above_largest = 0x7b;
};

template <class T>
T from(unsigned bits) {
  return T::from_bits(static_cast<decltype(T::bits)>(bits));
}

/// The value of a finite positive encoding, by the definition of binary floating point.
template <class T>
double defined_value(unsigned bits) {
  using F = Format<T>;
  const unsigned field = bits >> F::mantissa;
  const double fraction = bits & ((1u << F::mantissa) - 1);
  if (field == 0) return std::ldexp(fraction, 1 - F::bias - F::mantissa);
  return std::ldexp(fraction + (1 << F::mantissa), static_cast<int>(field) - F::bias - F::mantissa);
}

template <class T>
class SmallFloats : public testing::Test {
 protected:
  using F = Format<T>;
  static constexpr unsigned kSign = 1u << (F::exponent + F::mantissa);
};
using Formats = testing::Types<f16, bf16, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(SmallFloats, Formats);

TYPED_TEST(SmallFloats, EveryEncodingHasItsDefinedValueAndComesBack) {
  for (unsigned bits = 0; bits <= TestFixture::F::largest; ++bits) {
    const double value = defined_value<TypeParam>(bits);
    ASSERT_EQ(static_cast<float>(from<TypeParam>(bits)), value) << bits;
    ASSERT_EQ(static_cast<float>(from<TypeParam>(bits | this->kSign)), -value) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
    ASSERT_EQ(TypeParam(-value).bits, bits | this->kSign);
  }
}

TYPED_TEST(SmallFloats, RoundsToNearestAndTiesToEven) {
  for (unsigned bits = 0; bits < TestFixture::F::largest; ++bits) {
    const double low = defined_value<TypeParam>(bits), high = defined_value<TypeParam>(bits + 1);
    const double middle = (low + high) / 2;
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(TypeParam(middle).bits, even) << middle;
    ASSERT_EQ(TypeParam(std::nextafter(middle, low)).bits, bits) << middle;
    ASSERT_EQ(TypeParam(std::nextafter(middle, high)).bits, bits + 1) << middle;
    ASSERT_EQ(TypeParam(-middle).bits, even | this->kSign) << middle;
  }
}

TYPED_TEST(SmallFloats, OverflowSaturatesOrBecomesInfinite) {
  using F = typename TestFixture::F;
  const double largest = defined_value<TypeParam>(F::largest);
  const double step = largest - defined_value<TypeParam>(F::largest - 1);
  EXPECT_EQ(TypeParam(std::nextafter(largest + step / 2, 0.0)).bits, F::largest);
  EXPECT_EQ(TypeParam(largest + step / 2).bits, F::above_largest);
  EXPECT_EQ(TypeParam(1e300).bits, F::above_largest);
  EXPECT_EQ(TypeParam(-std::numeric_limits<double>::infinity()).bits,
            F::above_largest | this->kSign);
}

TYPED_TEST(SmallFloats, NanIsCanonicalAndStaysNan) {
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::quiet_NaN()).bits, this->kSign - 1);
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam::nan())));
  EXPECT_FALSE(TypeParam::nan() == TypeParam::nan());
}

TYPED_TEST(SmallFloats, TinyValuesKeepTheirSign) {
  EXPECT_EQ(TypeParam(std::numeric_limits<double>::denorm_min()).bits, 0u);
  EXPECT_EQ(TypeParam(-1e-300).bits, this->kSign);
  EXPECT_TRUE(TypeParam(0.0f) == TypeParam(-0.0f));
}

TEST(SmallFloat, InfinitiesDecode) {
  EXPECT_TRUE(std::isinf(static_cast<float>(from<f16>(0x7c00))));
  EXPECT_TRUE(std::isinf(static_cast<float>(from<bf16>(0xff80))));
  EXPECT_TRUE(std::isinf(static_cast<float>(from<f8e5m2>(0x7c))));
  EXPECT_EQ(static_cast<float>(f8e4m3::max()), 448.0f);  // e4m3fn has none
}

TEST(DType, TableAgreesWithTheHostTypes) {
  for (const DTypeInfo& info : kDTypeInfo) {
    EXPECT_EQ(dtype_from_name(info.name), info.dtype);
    visit_dtype(info.dtype, [&]<class T>(std::type_identity<T>) {
      EXPECT_EQ(dtype_of<T>, info.dtype) << info.name;
      EXPECT_EQ(static_cast<int>(sizeof(T)), size_bytes(info.dtype)) << info.name;
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        EXPECT_EQ(std::is_signed_v<T>, is_signed(info.dtype)) << info.name;
      }
    });
    if (is_float(info.dtype)) {
      EXPECT_EQ(1 + info.exponent_bits + info.mantissa_bits, info.bits) << info.name;
    }
  }
  EXPECT_EQ(dtype_from_name("float32"), std::nullopt);
}

}  // namespace
}  // namespace tegula::dtype_test
