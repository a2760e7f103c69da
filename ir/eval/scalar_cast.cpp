// Scalar semantics of conversions, the bits of an element, and the table of all scalar functions.
#include <algorithm>

#include "ir/cast_mode.h"
#include "ir/eval/scalar.h"

namespace tegula::ir {
namespace {

using Wide = __int128;

/// Returns a double that rounds like the integer to any type of at most 24 bits: digits beyond the
/// 53rd are folded into the last digit that is kept.
double sticky_double(Wide v) {
  const bool negative = v < 0;
  auto magnitude = static_cast<std::uint64_t>(negative ? -v : v);
  constexpr std::uint64_t kDropped = (std::uint64_t{1} << 12) - 1;
  if (magnitude >> 53 != 0 && (magnitude & kDropped) != 0)
    magnitude = (magnitude & ~kDropped) | (kDropped + 1);
  const auto d = static_cast<double>(magnitude);
  return negative ? -d : d;
}

template <Element T>
double largest_finite() {
  if constexpr (kIsSmallFloat<T>)
    return static_cast<float>(T::max());
  else
    return std::numeric_limits<T>::max();
}

template <Element T>
double next_towards_zero(double v) {
  if constexpr (kIsSmallFloat<T>) {
    const T t(v);
    return static_cast<float>(T::from_bits(static_cast<bits_t<T>>(t.bits - 1)));
  } else {
    return std::nextafter(static_cast<T>(v), T(0));
  }
}

template <Element T>
Cell float_from_double(double v, CastMode mode) {
  double r = rounded<T>(v);
  if (mode.to_zero && std::fabs(r) > std::fabs(v)) r = next_towards_zero<T>(r);
  if (mode.saturate && std::fabs(r) > largest_finite<T>())
    r = std::copysign(largest_finite<T>(), r);
  return float_cell(r);
}

template <Element T>
Cell int_from_double(double v) {
  if constexpr (std::is_same_v<T, bool>) return int_cell(v != 0);
  if (v != v) return int_cell(0);
  // 2^63 and 2^64 are doubles; the limits just below them are not.
  const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (v >= above) return highest_cell<T>();
  if (v < static_cast<double>(std::numeric_limits<T>::min())) return lowest_cell<T>();
  return give<T>(static_cast<T>(v));
}

template <Element T>
Cell int_from_int(Wide v, CastMode mode) {
  if constexpr (std::is_same_v<T, bool>) return int_cell(v != 0);
  if (!mode.saturate) return give<T>(wrap<T>(static_cast<std::uint64_t>(v)));
  return give<T>(static_cast<T>(
      std::clamp<Wide>(v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
}

/// Converts an integer to a float type. f64 is separate, because sticky_double is exact only for
/// types of at most 24 bits.
template <Element T>
Cell float_from_int(Wide v, CastMode mode) {
  if constexpr (std::is_same_v<T, f64>) {
    double r = static_cast<double>(v);
    if (mode.to_zero && static_cast<Wide>(std::fabs(r)) > (v < 0 ? -v : v))
      r = std::nextafter(r, 0.0);
    return float_cell(r);
  } else {
    return float_from_double<T>(sticky_double(v), mode);
  }
}

template <Element T, class ToWide>
void cast_integers(const ElementwiseCall& c, CastMode mode, ToWide to_wide) {
  map_cells<1>(c, [&](Cell a) {
    if constexpr (kIsFloat<T>)
      return float_from_int<T>(to_wide(a), mode);
    else
      return int_from_int<T>(to_wide(a), mode);
  });
}

template <Element T>
void cast_to(const ElementwiseCall& c, CastMode mode) {
  const DType from = held_as(c.in[0]);
  if (is_float(from))
    map_cells<1>(c, [&](Cell a) {
      if constexpr (kIsFloat<T>)
        return float_from_double<T>(a.f, mode);
      else
        return int_from_double<T>(a.f);
    });
  else if (from == DType::u64)
    cast_integers<T>(c, mode, [](Cell a) { return Wide{static_cast<std::uint64_t>(a.i)}; });
  else
    cast_integers<T>(c, mode, [](Cell a) { return Wide{a.i}; });
}

}  // namespace

void scalar_Cast(const ElementwiseCall& c) {
  // The value is only moved, so a NaN keeps its bits and an fp8 infinity does not saturate.
  if (c.out == c.in[0]) return map_cells<1>(c, [](Cell a) { return a; });
  const CastMode mode = cast_mode(c.attrs, held_as(c.in[0]), held_as(c.out));
  visit_dtype(held_as(c.out), [&](auto tag) { cast_to<typename decltype(tag)::type>(c, mode); });
}

void scalar_Bitcast(const ElementwiseCall& c) {
  const DType from = held_as(c.in[0]), to = held_as(c.out);
  map_cells<1>(c, [&](Cell a) { return from_bits(to_bits(a, from), to); });
}

Cell canonical(Cell value, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>)
      return float_cell(rounded<T>(value.f));
    else
      return give<T>(wrap<T>(static_cast<std::uint64_t>(value.i)));
  });
}

std::uint64_t to_bits(Cell value, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) -> std::uint64_t {
    return bits_of<typename decltype(tag)::type>(value);
  });
}

Cell from_bits(std::uint64_t bits, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return cell_of_bits<T>(static_cast<bits_t<T>>(bits));
  });
}

#define ELEMENTWISE(Name, ...) void scalar_##Name(const ElementwiseCall&);
#define MATH(Name, ...) void scalar_##Name(const ElementwiseCall&);
#include "ir/op_rows.h"

ElementwiseFn elementwise_fn(Opcode op) {
  static constexpr std::array<ElementwiseFn, kOpCount> kTable{
#define ROW(...) nullptr,
#define ELEMENTWISE(Name, ...) scalar_##Name,
#define MATH(Name, ...) scalar_##Name,
#include "ir/op_rows.h"
  };
  return kTable[static_cast<std::size_t>(op)];
}

}  // namespace tegula::ir
