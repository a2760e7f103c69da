// Expands math functions to instructions that the hardware has. Before: tile form. After: no op of
// family Math is left; bf16 and f16 functions are computed in f32.
#include <array>
#include <numbers>

#include "ir/builder.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

using Expand = Value (*)(Builder&, Value x, bool approx);

Value f32(Builder& b, double v) { return b.f32(v); }
Value fma(Builder& b, Value x, Value y, Value z) { return b.op(Opcode::Fma, {x, y, z}); }

/// e^x = 2^j * 2^(x log2 e - j), j = round(x log2 e), with log2 e in two parts. Adding 1.5 * 2^23
/// rounds, and leaves j + 127 in the low bits, the exponent of 2^j. Only j is clamped, so that
/// overflow, underflow, infinities and NaN come out of the other factor.
Value expand_Exp(Builder& b, Value x, bool approx) {
  constexpr double log2e = std::numbers::log2e, rounding = 12582912 + 127;
  if (approx) return b.op(Opcode::Exp2, {b.mul(x, f32(b, log2e))});
  constexpr double high = 1.44269502162933349609375, low = log2e - high;
  constexpr double smallest = -126 * std::numbers::ln2, largest = 127 * std::numbers::ln2;
  const Value clamped =
      b.op(Opcode::Min, {b.op(Opcode::Max, {x, f32(b, smallest)}), f32(b, largest)});
  const Value biased = fma(b, clamped, f32(b, high), f32(b, rounding));
  const Value j = b.sub(biased, f32(b, rounding));
  const Value rest = fma(b, x, f32(b, low), fma(b, x, f32(b, high), b.op(Opcode::Neg, {j})));
  const Type bits = b.kernel().type(x).with_elem({DType::i32, false});
  const Value power = b.op(
      Opcode::Shl, {b.op(Opcode::Bitcast, {biased}, bits), b.constant(bits, std::int64_t{23})});
  return b.mul(b.op(Opcode::Exp2, {rest}), b.op(Opcode::Bitcast, {power}, b.kernel().type(x)));
}

Value expand_Log(Builder& b, Value x, bool) {
  return b.mul(b.op(Opcode::Log2, {x}), f32(b, std::numbers::ln2));
}

/// Cody-Waite reduction by multiples of 2 pi, then the hardware's sine on [-pi, pi].
Value reduced_angle(Builder& b, Value x) {
  constexpr double two_pi = 2 * std::numbers::pi, hi = 6.28125, mid = 0.001934051513671875;
  const Value n = b.op(Opcode::Round, {b.mul(x, f32(b, 1 / two_pi))});
  Value r = fma(b, n, f32(b, -hi), x);
  r = fma(b, n, f32(b, -mid), r);
  return fma(b, n, f32(b, -(two_pi - hi - mid)), r);
}
Value expand_Sin(Builder& b, Value x, bool) {
  return b.op(Opcode::SinApprox, {reduced_angle(b, x)});
}
Value expand_Cos(Builder& b, Value x, bool) {
  return b.op(Opcode::CosApprox, {reduced_angle(b, x)});
}

Value polynomial(Builder& b, Value x, std::span<const double> coefficients) {
  Value sum = f32(b, coefficients.front());
  for (double c : coefficients.subspan(1)) sum = fma(b, sum, x, f32(b, c));
  return sum;
}

/// Small arguments: x + x^3 p(x^2), a least-squares fit on [0, 0.55]; else 1 - 2 / (e^2x + 1).
Value expand_Tanh(Builder& b, Value x, bool approx) {
  if (approx) return b.op(Opcode::TanhApprox, {x});
  constexpr std::array kFit{-0.006282472912921066, 0.021077758101036348, -0.053853857892422904,
                            0.1333260168543296, -0.33333318045710697};
  const Value t = b.op(Opcode::Abs, {x}), square = b.mul(x, x);
  const Value small = fma(b, b.mul(x, square), polynomial(b, square, kFit), x);
  const Value e = expand_Exp(b, b.add(t, t), false);
  const Value quotient = b.op(Opcode::Rcp, {b.add(e, f32(b, 1))}, {{AttrName::approx, 1}});
  const Value large = fma(b, quotient, f32(b, -2), f32(b, 1));
  const Value negative = b.cmp("lt", x, f32(b, 0));
  const Value signed_large = b.select(negative, b.op(Opcode::Neg, {large}), large);
  return b.select(b.cmp("lt", t, f32(b, 0.55)), small, signed_large);
}

/// |x| <= 1: x p(x^2); beyond, 1 - 2^q(|x|) with q fitted to log2(erfc) on [1, 4].
Value expand_Erf(Builder& b, Value x, bool) {
  constexpr std::array kSmall{7.889119299110789e-05, -0.0008020841123146383, 0.005189535307658777,
                              -0.026854444564063783, 0.11283600175124846,    -0.37612627135773086,
                              1.1283791659136575};
  constexpr std::array kLarge{0.00026772679243020677, -0.004240957724094163, 0.031458427901228554,
                              -0.1486515075904951,    -0.9207650120762463,   -1.625975075231742,
                              -0.0005103082984761657};
  const Value t = b.op(Opcode::Abs, {x});
  const Value small = b.mul(x, polynomial(b, b.mul(x, x), kSmall));
  const Value clamped = b.op(Opcode::Min, {t, f32(b, 4)});
  const Value large = b.sub(f32(b, 1), b.op(Opcode::Exp2, {polynomial(b, clamped, kLarge)}));
  const Value signed_large = b.select(b.cmp("lt", x, f32(b, 0)), b.op(Opcode::Neg, {large}), large);
  const Value number = b.select(b.cmp("lt", t, f32(b, 1)), small, signed_large);
  return b.select(b.cmp("eq", x, x), number, x);
}

Value expand_WithGradient(Builder&, Value value, bool) { return value; }

/// One entry per op: null for every op that is not of family Math.
constexpr std::array kExpand{
#define ROW(Name, ...) Expand{nullptr},
#define MATH(Name, ...) Expand{&expand_##Name},
#include "ir/op_rows.h"
};

}  // namespace

bool expand_math(Kernel& kernel, PassContext&) {
  bool changed = false;
  walk(kernel, kernel.body(), [&](OpId op) {
    const Expand expand = kExpand[static_cast<std::size_t>(kernel[op].opcode)];
    if (!expand) return;
    Builder b(kernel, op);
    const Value x = kernel[op].operands[0];
    const DType dtype = kernel.type(x).dtype();
    if (dtype == DType::f64)
      throw InternalError(print_op(kernel, op) + ": a function of f64, which T1009 rejects");
    const Value result =
        b.cast(expand(b, b.cast(x, DType::f32), kernel[op].attrs.i(AttrName::approx) != 0), dtype);
    kernel.replace_all_uses(kernel[op].results[0], result);
    kernel.erase(op);
    changed = true;
  });
  return changed;
}

}  // namespace tegula::ir
