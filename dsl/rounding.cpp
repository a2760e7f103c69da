// Conversions with selectable rounding, and minima and maxima that propagate NaN.
#include "tegula/rounding.h"

#include "dsl/elementwise.h"

namespace tegula {
namespace {

/// Returns the operand's own type.
DType promoted_type(Tracer& t, std::string_view what, const Arg& x) {
  return dsl::promote_types(t, what, std::span(&x, 1));
}

Tile convert_by(Tracer& t, const Tile& x, DType to, Round mode, Saturate saturate) {
  ir::AttrList attrs;
  const ir::Value v = t.value(x);
  const ir::Type type = t.kernel.type(v).with_dtype(to);
  if (mode == Round::zero && saturate == Saturate::always)
    return t.tile(t.build.op(Opcode::Cast, {v}, type,
                             {{dsl::AttrName::round, "rz"}, {dsl::AttrName::sat, 1}}));
  if (mode == Round::zero)
    return t.tile(t.build.op(Opcode::Cast, {v}, type, {{dsl::AttrName::round, "rz"}}));
  if (saturate == Saturate::always)
    return t.tile(t.build.op(Opcode::Cast, {v}, type, {{dsl::AttrName::sat, 1}}));
  return cast(x, to);
}

/// Rounds |x| down to a number of `to` if `random` is 0; else rounds down |x| plus a random part of
/// the distance to the next number. NaN and infinities are unchanged. `x` is f32, and the result is
/// a number of `to`, or beyond its largest one.
Tile cut(const Tile& x, DType to, const Arg& random) {
  const DTypeInfo& info = dtype_info(to);
  const int dropped = 23 - info.mantissa_bits;
  // The f32 exponent of the smallest normal number; smaller numbers have the same spacing.
  const int lowest = 127 + 2 - (1 << (info.exponent_bits - 1));
  const Tile bits = bitcast<u32>(x), magnitude = bits & 0x7fffffffu, exponent = magnitude >> 23;
  const Tile significand = (magnitude & 0x7fffffu) | where(exponent == 0u, 0u, 0x800000u);
  const Tile base = max(exponent, cast<u32>(lowest));
  const Tile wanted = base - max(exponent, cast<u32>(1)) + cast<u32>(dropped);
  // Shifts beyond 31 bits would overflow the sum: drop the lowest bits first.
  const Tile shift = min(wanted, cast<u32>(31));
  const Tile mask = (cast<u32>(1) << shift) - 1u;
  const Tile kept = ((significand >> (wanted - shift)) + (random & mask)) >> shift;
  const Tile distance = bitcast<f32>((base - cast<u32>(info.mantissa_bits)) << 23);
  const Tile size = cast<f32>(kept) * distance;
  const Tile with_sign = bitcast<f32>(bitcast<u32>(size) | (bits & 0x80000000u));
  return where(magnitude >= 0x7f800000u, x, with_sign);
}

/// Does the same for bf16, whose numbers are the upper halves of f32 numbers.
Tile cut_to_bf16(const Tile& x, const Arg& random) {
  const Tile bits = bitcast<u32>(x), sum = (bits + (random & 0xffffu)) & 0xffff0000u;
  return where((bits & 0x7fffffffu) >= 0x7f800000u, x, bitcast<f32>(sum));
}

Tile extreme_with_policy(std::string_view what, Opcode op, const Arg& a, const Arg& b, Nan policy) {
  if (policy == Nan::ignore) return op == Opcode::Min ? min(a, b) : max(a, b);
  return dsl::record_extreme(what, op, a, b, {{dsl::AttrName::nan, "propagate"}});
}

}  // namespace

Tile cast(const Arg& x, DType to, Round mode, Saturate saturate) {
  Tracer& t = Tracer::at(x.loc(), "cast");
  if (!x.is_literal() && t.type(x).is_pointer()) return cast(x, to);  // rejects it
  const DType from = promoted_type(t, "cast", x);
  const Tracer::Pin pin(t, x.loc());
  Tile v = t.tile(dsl::operand(t, x, from));
  if (is_float(from) && !is_float(to)) {
    if (dsl::is_f8(from)) v = cast<f32>(v);
    return cast(mode == Round::nearest && is_integer(to) ? round(v) : v, to);
  }
  if (dsl::is_f8(to) && mode == Round::zero && !dsl::is_f8(from) && !is_bool(from)) {
    const Tile single = convert_by(t, v, DType::f32, Round::zero, saturate);
    return cast(cut(single, to, 0u), to);
  }
  return convert_by(t, v, to, mode, saturate);
}

Tile cast(const Arg& x, DType to, const Stochastic& by) {
  Tracer& t = Tracer::at(x.loc(), "cast");
  if (!is_float(to) || size_bits(to) > 16) fail(ErrorId::stochastic_type, x.loc(), {}, name(to));
  const DType bits = promoted_type(t, "cast", by.bits);
  if (!by.bits.is_literal() && bits != DType::u32)
    fail(ErrorId::stochastic_bits, by.bits.loc(), {t.origin(t.value(by.bits), "the operand")},
         name(bits));
  const Tracer::Pin pin(t, x.loc());
  const Tile single = cast(x, DType::f32), random = t.tile(dsl::operand(t, by.bits, DType::u32));
  return cast(to == DType::bf16 ? cut_to_bf16(single, random) : cut(single, to, random), to);
}

Tile min(const Arg& a, const Arg& b, Nan policy) {
  return extreme_with_policy("min", Opcode::Min, a, b, policy);
}
Tile max(const Arg& a, const Arg& b, Nan policy) {
  return extreme_with_policy("max", Opcode::Max, a, b, policy);
}

}  // namespace tegula
