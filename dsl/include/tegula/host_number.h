#pragma once
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

#include "tegula/dtype.h"
#include "tegula/location.h"

/// Numbers that the host passes for Scalars, converted only if the Scalar's type holds them.
namespace tegula::detail {

template <class T>
std::uint64_t bits_of(const T& value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

/// Types whose values unary plus turns into C++ numbers: numbers, bool, small floats, enums.
template <class V>
concept HostNumeric = requires(const V& value) { requires std::is_arithmetic_v<decltype(+value)>; };

/// Returns the number as a T. Returns nothing if T does not hold it: it exceeds T's largest finite
/// value, or T is an integer type and it has a fraction or is NaN. Floats are rounded.
template <Element T, HostNumeric V>
std::optional<T> converted(const V& value) {
  if constexpr (std::is_same_v<V, T>) {
    return value;
  } else if constexpr (dtype_info(dtype_of<T>).kind == DTypeKind::floating) {
    const auto number = static_cast<double>(+value);
    double largest;
    bool has_infinity = true;
    if constexpr (std::is_floating_point_v<T>)
      largest = static_cast<double>(std::numeric_limits<T>::max());
    else
      largest = static_cast<float>(T::max()), has_infinity = T::kHasInfinity;
    const bool exceeds = number > largest || number < -largest;
    const bool is_infinite = number - number != 0;  // NaN does not exceed
    if (exceeds && !(is_infinite && has_infinity)) return std::nullopt;
    return static_cast<T>(+value);
  } else {
    using Range = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    const auto number = +value;
    if constexpr (std::is_floating_point_v<decltype(number)>) {
      constexpr double kEnd =
          2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<Range>::digits - 1));
      constexpr double kBegin = std::is_signed_v<Range> ? -kEnd : 0;
      if (!(number >= kBegin && number < kEnd)) return std::nullopt;
      if (static_cast<decltype(number)>(static_cast<Range>(number)) != number) return std::nullopt;
    } else if (!std::in_range<Range>(number)) {
      return std::nullopt;
    }
    if (std::is_same_v<T, bool> && number > 1) return std::nullopt;
    return static_cast<T>(number);
  }
}

/// Throws CompileError T0713: `what` ("a Scalar") of this type cannot hold the number. N:
/// std::int64_t, std::uint64_t or double.
template <class N>
[[noreturn]] void refuse_number(N number, const char* what, DType dtype, const Loc& at);

/// Returns the number as a T, or throws T0713 if T does not hold it.
template <Element T, HostNumeric V>
T held_number(const V& value, const char* what, const Loc& at) {
  const std::optional<T> held = converted<T>(value);
  if (held) [[likely]]
    return *held;
  using Number = decltype(+value);
  using Shown =
      std::conditional_t<std::is_floating_point_v<Number>, double,
                         std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>>;
  refuse_number(static_cast<Shown>(+value), what, dtype_of<T>, at);
}

/// A number for a Scalar<T>. Throws CompileError at the line of the conversion if T does not hold
/// it.
template <Element T>
class HostNumber {
 public:
  template <HostNumeric V>
  HostNumber(const V& value, Loc at = std::source_location::current()) {
    bits_ = bits_of(held_number<T>(value, "a Scalar", at));
  }
  std::uint64_t bits() const { return bits_; }

 private:
  std::uint64_t bits_;
};

/// The first element type with the size and the sign of a C++ number.
template <class P, class... Types>
struct ElementLike;
template <class P, class First, class... Rest>
struct ElementLike<P, First, Rest...>
    : std::conditional_t<sizeof(P) == sizeof(First) &&
                             std::is_signed_v<P> == std::is_signed_v<First> &&
                             std::is_floating_point_v<P> == std::is_floating_point_v<First>,
                         std::type_identity<First>, ElementLike<P, Rest...>> {};

/// A number for a parameter that is a C++ number. Throws CompileError T0713 at the line of the call
/// if P does not hold it.
template <class P>
class HostConstant {
 public:
  template <HostNumeric V>
  HostConstant(const V& value, Loc at = std::source_location::current())
      : value_(static_cast<P>(held_number<Held>(value, "a parameter", at))) {}
  operator P() const { return value_; }

 private:
  using Held = typename ElementLike<P, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64>::type;
  P value_;
};

}  // namespace tegula::detail
