#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

/// Element types: their names, sizes and host storage, and exact conversions of the small floats.
namespace tegula {

/// The element types of tiles and tensors. The order is the order of `AllDTypes` and of
/// `dtype_info`.
enum class DType : std::uint8_t {
  i1,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f8e4m3,
  f8e5m2,
  f16,
  bf16,
  f32,
  f64
};

namespace detail {

/// An IEEE-like binary format of at most 16 bits. All conversions round once, to nearest even.
/// NaN always becomes the canonical NaN that the GPU's `cvt` writes: sign 0 and every other bit 1.
/// `Saturates` formats cannot reach infinity by conversion: values that are too large, infinity
/// included, become the largest finite value, as `cvt.rn.satfinite` does for both fp8 types.
template <class Self, class Bits, int Exponent, int Mantissa, bool HasInfinity, bool Saturates>
struct SmallFloat {
  static constexpr int kExponentBits = Exponent;
  static constexpr int kMantissaBits = Mantissa;
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr bool kHasInfinity = HasInfinity;
  static constexpr Bits kNanBits = static_cast<Bits>((1u << (Exponent + Mantissa)) - 1);
  static constexpr Bits kMaxBits =
      static_cast<Bits>(HasInfinity ? (((1u << Exponent) - 1) << Mantissa) - 1 : kNanBits - 1u);

  Bits bits;  ///< the encoding as stored in memory

  SmallFloat() = default;
  /// Rounds to nearest even, once, for every `float` and `double`.
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr explicit SmallFloat(T value) : bits(encode(static_cast<double>(value))) {}

  /// Converts exactly: a `float` represents every value of the format.
  constexpr operator float() const { return decode(bits); }  // NOLINT(google-explicit-constructor)

  static constexpr Self from_bits(Bits b) {
    Self s{};
    s.bits = b;
    return s;
  }
  /// Largest and most negative finite values, and the canonical NaN.
  static constexpr Self max() { return from_bits(kMaxBits); }
  static constexpr Self lowest() { return from_bits(static_cast<Bits>(kMaxBits | kSignBit)); }
  static constexpr Self nan() { return from_bits(kNanBits); }

  friend constexpr bool operator==(const SmallFloat& a, const SmallFloat& b) {
    return decode(a.bits) == decode(b.bits);
  }

 private:
  static constexpr unsigned kSignBit = 1u << (Exponent + Mantissa);
  static constexpr int kMinExponent = 1 - kBias;

  static constexpr Bits encode(double value) {
    const auto raw = std::bit_cast<std::uint64_t>(value);
    const auto sign = static_cast<unsigned>(raw >> 63) * kSignBit;
    const int field = static_cast<int>((raw >> 52) & 0x7ff);
    const std::uint64_t fraction = raw & ((std::uint64_t{1} << 52) - 1);
    if (field == 0x7ff && fraction != 0) return kNanBits;
    if (field == 0) return static_cast<Bits>(sign);  // double subnormals are far below every format
    const int exponent = field - 1023;
    const int below = exponent < kMinExponent ? kMinExponent - exponent : 0;
    const int shift = 52 - Mantissa + below;
    if (shift > 54) return static_cast<Bits>(sign);
    const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
    std::uint64_t rounded = significand >> shift;
    const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && (rounded & 1))) ++rounded;
    // The hidden bit of `rounded` adds one to the exponent field, and so does a carry.
    if (below == 0) rounded += static_cast<std::uint64_t>(exponent - kMinExponent) << Mantissa;
    if (rounded > kMaxBits) rounded = Saturates || !HasInfinity ? kMaxBits : kMaxBits + 1u;
    return static_cast<Bits>(rounded | sign);
  }

  static constexpr float decode(Bits b) {
    const bool negative = (b & kSignBit) != 0;
    const unsigned magnitude = b & (kSignBit - 1);
    const unsigned field = magnitude >> Mantissa;
    const unsigned fraction = magnitude & ((1u << Mantissa) - 1);
    constexpr unsigned kTop = (1u << Exponent) - 1;
    const bool is_special = HasInfinity ? field == kTop : magnitude == kNanBits;
    const unsigned sign = negative ? 0x80000000u : 0u;
    if (is_special) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << (23 - Mantissa)));
    if (field == 0) {
      // Scales by two normal factors: the unit of bf16 subnormals is itself a subnormal float.
      constexpr int kUnit = kMinExponent - Mantissa;
      const float half_unit =
          std::bit_cast<float>(static_cast<std::uint32_t>(127 + kUnit / 2) << 23);
      const float rest =
          std::bit_cast<float>(static_cast<std::uint32_t>(127 + kUnit - kUnit / 2) << 23);
      const float v = static_cast<float>(fraction) * half_unit * rest;
      return negative ? -v : v;
    }
    return std::bit_cast<float>(sign | ((field + 127u - kBias) << 23) |
                                (fraction << (23 - Mantissa)));
  }
};

}  // namespace detail

/// IEEE half precision.
struct f16 : detail::SmallFloat<f16, std::uint16_t, 5, 10, true, false> {
  using SmallFloat::SmallFloat;
};
/// The upper half of a `float`.
struct bf16 : detail::SmallFloat<bf16, std::uint16_t, 8, 7, true, false> {
  using SmallFloat::SmallFloat;
};
/// OCP fp8 with 3 mantissa bits: no infinity, largest value 448 ("e4m3fn"). Conversion saturates.
struct f8e4m3 : detail::SmallFloat<f8e4m3, std::uint8_t, 4, 3, false, true> {
  using SmallFloat::SmallFloat;
};
/// OCP fp8 with 2 mantissa bits: has infinity, largest finite value 57344. Conversion saturates.
struct f8e5m2 : detail::SmallFloat<f8e5m2, std::uint8_t, 5, 2, true, true> {
  using SmallFloat::SmallFloat;
};

/// Host types of the other element types.
using i1 = bool;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using f32 = float;
using f64 = double;

static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2 && sizeof(f8e4m3) == 1 && sizeof(f8e5m2) == 1);
static_assert(std::is_trivially_copyable_v<bf16> && sizeof(bool) == 1);

/// Host storage type of every DType, in the order of the enumeration.
using AllDTypes =
    std::tuple<i1, i8, i16, i32, i64, u8, u16, u32, u64, f8e4m3, f8e5m2, f16, bf16, f32, f64>;
inline constexpr std::size_t kDTypeCount = std::tuple_size_v<AllDTypes>;

/// Host storage type of `D`.
template <DType D>
using storage_t = std::tuple_element_t<static_cast<std::size_t>(D), AllDTypes>;

enum class DTypeKind : std::uint8_t { boolean, signed_int, unsigned_int, floating };

/// Properties of one element type.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  ///< as written in the IR and in messages
  DTypeKind kind;
  std::uint8_t bits;           ///< 1 for i1
  std::uint8_t exponent_bits;  ///< 0 unless floating
  std::uint8_t mantissa_bits;  ///< stored bits, without the hidden one; 0 unless floating
};

/// Properties of all element types.
inline constexpr std::array<DTypeInfo, kDTypeCount> kDTypeInfo{{
    {DType::i1, "i1", DTypeKind::boolean, 1, 0, 0},
    {DType::i8, "i8", DTypeKind::signed_int, 8, 0, 0},
    {DType::i16, "i16", DTypeKind::signed_int, 16, 0, 0},
    {DType::i32, "i32", DTypeKind::signed_int, 32, 0, 0},
    {DType::i64, "i64", DTypeKind::signed_int, 64, 0, 0},
    {DType::u8, "u8", DTypeKind::unsigned_int, 8, 0, 0},
    {DType::u16, "u16", DTypeKind::unsigned_int, 16, 0, 0},
    {DType::u32, "u32", DTypeKind::unsigned_int, 32, 0, 0},
    {DType::u64, "u64", DTypeKind::unsigned_int, 64, 0, 0},
    {DType::f8e4m3, "f8e4m3", DTypeKind::floating, 8, 4, 3},
    {DType::f8e5m2, "f8e5m2", DTypeKind::floating, 8, 5, 2},
    {DType::f16, "f16", DTypeKind::floating, 16, 5, 10},
    {DType::bf16, "bf16", DTypeKind::floating, 16, 8, 7},
    {DType::f32, "f32", DTypeKind::floating, 32, 8, 23},
    {DType::f64, "f64", DTypeKind::floating, 64, 11, 52},
}};

/// Returns the properties of an element type.
constexpr const DTypeInfo& dtype_info(DType d) { return kDTypeInfo[static_cast<std::size_t>(d)]; }

/// Returns "bf16", "i32", ...
constexpr std::string_view name(DType d) { return dtype_info(d).name; }
/// Returns the number of bits that carry the value: 1 for i1.
constexpr int size_bits(DType d) { return dtype_info(d).bits; }
/// Returns the bytes that one element takes in memory: 1 for i1.
constexpr int size_bytes(DType d) { return (dtype_info(d).bits + 7) / 8; }
/// `is_float` returns true for floating-point types, `is_bool` for i1.
constexpr bool is_float(DType d) { return dtype_info(d).kind == DTypeKind::floating; }
constexpr bool is_bool(DType d) { return dtype_info(d).kind == DTypeKind::boolean; }
/// Returns true for signed and unsigned integers, but not for i1.
constexpr bool is_integer(DType d) {
  return dtype_info(d).kind == DTypeKind::signed_int ||
         dtype_info(d).kind == DTypeKind::unsigned_int;
}
/// Returns true for signed integers and floating-point types.
constexpr bool is_signed(DType d) {
  return dtype_info(d).kind == DTypeKind::signed_int || dtype_info(d).kind == DTypeKind::floating;
}

/// Returns the type called `text`, or nothing.
constexpr std::optional<DType> dtype_from_name(std::string_view text) {
  for (const DTypeInfo& info : kDTypeInfo)
    if (info.name == text) return info.dtype;
  return std::nullopt;
}

namespace detail {
template <class T, std::size_t I = 0>
constexpr int dtype_index() {
  if constexpr (I == kDTypeCount)
    return -1;
  else if constexpr (std::is_same_v<T, std::tuple_element_t<I, AllDTypes>>)
    return static_cast<int>(I);
  else
    return dtype_index<T, I + 1>();
}
}  // namespace detail

/// True for the host types that elements may have.
template <class T>
concept Element = detail::dtype_index<std::remove_cv_t<T>>() >= 0;

/// The DType of a host type, e.g. `dtype_of<bf16> == DType::bf16`.
template <Element T>
inline constexpr DType dtype_of = static_cast<DType>(detail::dtype_index<std::remove_cv_t<T>>());

/// Calls `f(std::type_identity<T>{})` with the host type of `d` and returns its result.
template <class F>
constexpr decltype(auto) visit_dtype(DType d, F&& f) {
  using Result = decltype(f(std::type_identity<bool>{}));
  constexpr auto table = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Result (*)(F&), kDTypeCount>{[](F& g) -> Result {
      return g(std::type_identity<std::tuple_element_t<I, AllDTypes>>{});
    }...};
  }(std::make_index_sequence<kDTypeCount>{});
  return table[static_cast<std::size_t>(d)](f);
}

}  // namespace tegula
