// Functions that decompose or compose floats.
#include <cmath>

#include "dsl/elementary/composed.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {
namespace {

/// Multiplies by 2^n in steps that neither overflow nor round before the last one.
Tile ldexp_of(const Tile& x, const Tile& n) {
  const Format f = format_of(x);
  const std::int64_t highest = f.bias, lowest = f.bias - 1 - f.mantissa - 1;
  Tile y = x, left = n;
  for (int i = 0; i < 2; ++i) {
    const Tile above = left > highest, below = left < 1 - f.bias;
    y = where(above, y * std::ldexp(1.0, static_cast<int>(highest)),
              where(below, y * std::ldexp(1.0, -static_cast<int>(lowest)), y));
    left = where(above, left - highest, where(below, left + lowest, left));
  }
  return y * power_of_two(max(min(left, highest), 1 - f.bias), f);
}

/// Returns the integer type with the bits of a float of any width.
DType integer_like(DType d) {
  return size_bits(d) == 64 ? DType::i64 : size_bits(d) == 32 ? DType::i32 : DType::i16;
}

Tile nextafter_of(const Tile& x, const Tile& y) {
  const DType d = x.dtype(), i = integer_like(d);
  const std::int64_t magnitude = (std::int64_t{1} << (size_bits(d) - 2)) * 2 - 1;
  const Tile bits = bitcast(x, i), one = cast(1, i);
  const Tile from_zero = (bitcast(y, i) & ~magnitude) | one;
  const Tile moved = where((x < y) == (x > 0.0), bits + one, bits - one);
  const Tile next = bitcast(where(x == 0.0, from_zero, moved), d);
  return where((x != x) || (y != y), nan, where(x == y, y, next));
}

}  // namespace
}  // namespace dsl::elementary

namespace {

/// Returns `f` of two floats in their own type.
template <class F>
Tile on_own_type(std::string_view what, const Arg& x, const Arg& y, const F& f) {
  Tracer& t = Tracer::at(x.loc(), what);
  const Arg args[] = {x, y};
  const DType d = dsl::promote_types(t, what, args);
  dsl::require_floats(what, d, x.loc());
  const Tracer::Pin pin(t, x.loc());
  ir::Value values[] = {dsl::operand(t, x, d), dsl::operand(t, y, d)};
  dsl::broadcast_shapes(t, what, values, x.loc());
  return f(t.tile(values[0]), t.tile(values[1]));
}

}  // namespace

namespace elementary = dsl::elementary;

Tile ldexp(const Arg& x, const Arg& exponent) {
  Tracer& t = Tracer::at(x.loc(), "ldexp");
  const DType d = dsl::promote_types(t, "ldexp", std::span(&exponent, 1));
  dsl::require_integers("ldexp", d, exponent.loc());
  const Tile n = t.tile(dsl::operand(t, exponent, d));
  return dsl::composed("ldexp", x, [&](const Tile& v) {
    return elementary::ldexp_of(
        v, cast(clamp(cast<i64>(n), -9000, 9000), elementary::format_of(v).bits));
  });
}

std::pair<Tile, Tile> frexp(const Arg& x) {
  Tile exponent;
  const Tile mantissa = dsl::composed("frexp", x, [&](const Tile& v) {
    const elementary::Format f = elementary::format_of(v);
    const Tile size = abs(v), tiny = size < f.smallest_normal();
    const Tile bits = elementary::bits_of(where(tiny, v * std::ldexp(1.0, f.mantissa + 1), v));
    const Tile stored = (bits & f.infinity()) >> f.mantissa;
    const Tile is_number = (size > 0.0) && (size < inf);
    const Tile lift = where(tiny, f.mantissa + 1, 0);
    exponent = cast<i32>(where(is_number, stored - (f.bias - 1) - lift, 0));
    const Tile half = (bits & ~f.infinity()) | ((f.bias - 1) << f.mantissa);
    return where(is_number, elementary::from_bits(half, f), v);
  });
  return {mantissa, exponent};
}

Tile nextafter(const Arg& x, const Arg& y) {
  return on_own_type("nextafter", x, y, elementary::nextafter_of);
}

Tile copysign(const Arg& x, const Arg& y) {
  return on_own_type("copysign", x, y, [](const Tile& size, const Tile& sign) {
    const DType i = elementary::integer_like(size.dtype());
    return where((bitcast(size, i) ^ bitcast(sign, i)) < 0, -size, size);
  });
}

Tile fdim(const Arg& x, const Arg& y) {
  return on_own_type("fdim", x, y,
                     [](const Tile& a, const Tile& b) { return where(a <= b, 0, a - b); });
}

}  // namespace tegula
