// Folds composed of other folds.
#include "tegula/statistics.h"

#include <limits>

#include "dsl/elementwise.h"
#include "dsl/errors.h"
#include "tegula/math.h"

namespace tegula {
namespace {

using dsl::AttrName;
using dsl::Opcode;
using dsl::Tracer;

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

Tile fold_bits(std::string_view what, const char* kind, const Arg& x, int axis) {
  Tracer& t = Tracer::at(x.loc(), what);
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  if (!is_bool(type.dtype())) dsl::require_integers(what, type.dtype(), x.loc());
  const int a = dsl::checked_axis(what, type, axis, x.loc());
  return t.tile(t.build.op(Opcode::Reduce, {v}, {{AttrName::axis, a}, {AttrName::kind, kind}}));
}

/// A float tile in the type of the computation, and its axis.
struct Operand {
  Tile tile;
  int axis;
  DType given;
};
Operand float_operand(std::string_view what, const Arg& x, int axis) {
  Tracer& t = Tracer::at(x.loc(), what);
  const ir::Value v = dsl::operand(t, x);
  const DType d = t.kernel.type(v).dtype();
  dsl::require_floats(what, d, x.loc());
  const int a = dsl::checked_axis(what, t.kernel.type(v), axis, x.loc());
  return {t.tile(dsl::convert(t, v, d == DType::f64 ? d : DType::f32)), a, d};
}

/// Returns a fold's result with the folded dimension restored, so that it broadcasts against the
/// tile.
Tile along(const Tile& folded, const Operand& x) {
  return folded.rank() == 0 ? folded : expand(folded, x.axis);
}

/// Returns the number of present elements along the axis.
Tile present_along_axis(const Operand& x) {
  Tracer& t = Tracer::at(Loc(), "count");
  const ir::Value v = t.value(x.tile);
  return cast(sum(dsl::presence(t, v), x.axis), t.kernel.type(v).dtype());
}

}  // namespace

Tile xor_sum(const Arg& x, Axis axis) { return fold_bits("xor_sum", "xor", x, axis.value()); }
Tile bit_or(const Arg& x, Axis axis) { return fold_bits("bit_or", "or", x, axis.value()); }
Tile bit_and(const Arg& x, Axis axis) { return fold_bits("bit_and", "and", x, axis.value()); }

Tile logsumexp(const Arg& t, Axis axis) {
  const Operand x = float_operand("logsumexp", t, axis.value());
  const Tile most = max(x.tile, Axis(x.axis));
  // Infinities must not be subtracted from each other.
  const Tile shift = where(isinf(most), 0.0f, most);
  return cast(log(sum(exp(x.tile - along(shift, x)), x.axis)) + shift, x.given);
}

Tile mean(const Arg& t, Axis axis) {
  const Operand x = float_operand("mean", t, axis.value());
  return cast(sum(x.tile, x.axis) / present_along_axis(x), x.given);
}

Moments moments(const Arg& t, Axis axis) {
  const Operand x = float_operand("moments", t, axis.value());
  const Tile count = present_along_axis(x), mean = sum(x.tile, x.axis) / count;
  const Tile difference = x.tile - along(mean, x);
  return {count, mean, sum(difference * difference, x.axis)};
}

Tile Moments::var(int correction) const {
  return where(count > correction, m2 / (count - correction), kNotANumber);
}

Moments merge(const Moments& a, const Moments& b) {
  const Tile count = a.count + b.count, difference = b.mean - a.mean, share = b.count / count;
  const Tile mean = fma(difference, share, a.mean),
             m2 = a.m2 + fma(difference * difference, a.count * share, b.m2);
  const auto either = [&](const Tile& of_a, const Tile& of_b, const Tile& both) {
    return where(a.count == 0, of_b, where(b.count == 0, of_a, both));
  };
  return {count, either(a.mean, b.mean, mean), either(a.m2, b.m2, m2)};
}

Tile var(const Arg& t, Axis axis, int correction) {
  const Operand x = float_operand("var", t, axis.value());
  return cast(moments(x.tile, x.axis).var(correction), x.given);
}

}  // namespace tegula
