#pragma once
// Integer division with explicit rounding; divisors are positive.
#include <type_traits>

namespace tegula {

/// Returns the quotient, rounded down.
template <class T>
constexpr T floor_div(T a, std::type_identity_t<T> b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// Returns the quotient, rounded up.
template <class T>
constexpr T ceil_div(T a, std::type_identity_t<T> b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

/// Returns the least multiple of `unit` that is not below `a`.
template <class T>
constexpr T round_up(T a, std::type_identity_t<T> unit) {
  return ceil_div(a, unit) * unit;
}

}  // namespace tegula
