#pragma once
// Exact conversions between cells, the host numbers that ops compute with, and the bits in memory.
// Small floats compute in f32. A NaN that an op produces is the canonical NaN (as on the GPU); a
// NaN that is only moved keeps its bits.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ir/eval/cell.h"

namespace tegula::ir {

inline constexpr double kNaN = std::bit_cast<double>(0x7fffffffffffffffULL);

template <class T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, f16> || std::is_same_v<T, bf16> ||
                                      std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;
template <class T>
inline constexpr bool kIsFloat = kIsSmallFloat<T> || std::is_floating_point_v<T>;

/// The host type in which an op on elements of type T computes.
template <Element T>
using compute_t = std::conditional_t<kIsSmallFloat<T>, float, T>;

constexpr Cell int_cell(std::int64_t v) { return Cell{.i = v}; }
constexpr Cell float_cell(double v) { return Cell{.f = v}; }

/// Returns the type that represents an element; a pointer is stored and compared as its address.
constexpr DType held_as(Elem e) { return e.pointer ? DType::u64 : e.dtype; }

template <Element T>
compute_t<T> take(Cell c) {
  if constexpr (kIsFloat<T>)
    return static_cast<compute_t<T>>(c.f);
  else
    return static_cast<T>(c.i);
}

/// Returns the value rounded once, to nearest even, as the double of a cell.
template <Element T, class V>
double rounded(V v) {
  if (v != v) return kNaN;
  if constexpr (std::is_same_v<T, bf16> && std::is_same_v<V, float>) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    return std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
  } else if constexpr (kIsSmallFloat<T>) {
    return static_cast<float>(T(v));
  } else {
    return static_cast<T>(v);
  }
}

template <Element T>
Cell give(compute_t<T> v) {
  if constexpr (kIsFloat<T>)
    return float_cell(rounded<T>(v));
  else
    return int_cell(static_cast<std::int64_t>(v));
}

/// Returns the low bits of `v` as an integer element.
template <Element T>
T wrap(std::uint64_t v) {
  if constexpr (std::is_same_v<T, bool>)
    return (v & 1) != 0;
  else
    return static_cast<T>(v);
}

template <std::size_t Bytes>
using uint_of_t = std::conditional_t<
    Bytes == 1, std::uint8_t,
    std::conditional_t<Bytes == 2, std::uint16_t,
                       std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;
template <Element T>
using bits_t = uint_of_t<sizeof(T)>;

template <Element T>
bits_t<T> nan_bits(double nan) {
  const DTypeInfo& t = dtype_info(dtype_of<T>);
  const auto raw = std::bit_cast<std::uint64_t>(nan);
  const std::uint64_t sign = raw >> 63 << (t.bits - 1);
  const std::uint64_t exponent = ((std::uint64_t{1} << t.exponent_bits) - 1) << t.mantissa_bits;
  std::uint64_t fraction = (raw & ((std::uint64_t{1} << 52) - 1)) >> (52 - t.mantissa_bits);
  if (fraction == 0 || dtype_of<T> == DType::f8e4m3)
    fraction = (std::uint64_t{1} << t.mantissa_bits) - 1;
  return static_cast<bits_t<T>>(sign | exponent | fraction);
}

template <Element T>
double nan_from_bits(bits_t<T> bits) {
  const DTypeInfo& t = dtype_info(dtype_of<T>);
  const std::uint64_t sign = static_cast<std::uint64_t>(bits) >> (t.bits - 1) << 63;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << t.mantissa_bits) - 1);
  return std::bit_cast<double>(sign | 0x7ff0000000000000ULL | fraction << (52 - t.mantissa_bits));
}

template <Element T>
bits_t<T> bits_of(Cell c) {
  if constexpr (!kIsFloat<T>) {
    return static_cast<bits_t<T>>(static_cast<T>(c.i));
  } else {
    if (c.f != c.f) return nan_bits<T>(c.f);
    if constexpr (std::is_same_v<T, bf16>)
      return static_cast<bits_t<T>>(std::bit_cast<std::uint32_t>(static_cast<float>(c.f)) >> 16);
    else if constexpr (std::is_same_v<T, f8e5m2>)  // its conversion saturates, but memory may hold
                                                   // an infinity
      return std::isinf(c.f) ? (c.f > 0 ? 0x7c : 0xfc) : T(c.f).bits;
    else
      return std::bit_cast<bits_t<T>>(static_cast<T>(c.f));
  }
}

template <Element T>
Cell cell_of_bits(bits_t<T> bits) {
  if constexpr (std::is_same_v<T, bool>) {
    return int_cell(bits != 0);
  } else if constexpr (!kIsFloat<T>) {
    return int_cell(static_cast<std::int64_t>(static_cast<T>(bits)));
  } else {
    compute_t<T> v;
    if constexpr (std::is_same_v<T, bf16>)
      v = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    else if constexpr (kIsSmallFloat<T>)
      v = T::from_bits(bits);
    else
      v = std::bit_cast<T>(bits);
    return float_cell(v != v ? nan_from_bits<T>(bits) : static_cast<double>(v));
  }
}

template <Element T>
Cell read_element(const std::byte* address) {
  bits_t<T> bits;
  std::memcpy(&bits, address, sizeof bits);
  return cell_of_bits<T>(bits);
}

template <Element T>
void write_element(std::byte* address, Cell c) {
  const bits_t<T> bits = bits_of<T>(c);
  std::memcpy(address, &bits, sizeof bits);
}

/// The most negative and the largest value of an element type (infinite if the type has
/// infinities).
template <Element T>
Cell lowest_cell() {
  if constexpr (std::is_same_v<T, f8e4m3>)
    return float_cell(f8e4m3::lowest());
  else if constexpr (kIsFloat<T>)
    return float_cell(-std::numeric_limits<double>::infinity());
  else
    return int_cell(static_cast<std::int64_t>(std::numeric_limits<T>::min()));
}
template <Element T>
Cell highest_cell() {
  if constexpr (std::is_same_v<T, f8e4m3>)
    return float_cell(f8e4m3::max());
  else if constexpr (kIsFloat<T>)
    return float_cell(std::numeric_limits<double>::infinity());
  else
    return int_cell(static_cast<std::int64_t>(std::numeric_limits<T>::max()));
}

/// min and max of one type. -0 is less than +0; a number is preferred to a NaN unless `propagate`.
template <class V>
V smaller(V a, V b, bool propagate) {
  if constexpr (std::is_floating_point_v<V>) {
    if (a != a) return propagate ? a : b;
    if (b != b) return propagate ? b : a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}
template <class V>
V larger(V a, V b, bool propagate) {
  if constexpr (std::is_floating_point_v<V>) {
    if (a != a) return propagate ? a : b;
    if (b != b) return propagate ? b : a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

}  // namespace tegula::ir
