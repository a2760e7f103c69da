// Elementwise functions: ops, and compositions of ops. Compositions on small floats are computed in
// f32 and rounded once.
#include "tegula/math.h"

#include <array>
#include <numbers>

#include "dsl/elementary/composed.h"
#include "dsl/elementary/of_doubles.h"
#include "tegula/derivative.h"
#include "tegula/elementary.h"
#include "tegula/rounding.h"

namespace tegula {
namespace {

Tile unary_float(std::string_view what, Opcode op, const Arg& x, bool approx = false) {
  Tracer& t = Tracer::at(x.loc(), what);
  const DType d = dsl::promote_types(t, what, std::span(&x, 1));
  dsl::require_floats(what, d, x.loc());
  const ir::Value v = dsl::operand(t, x, d);
  return t.tile(approx ? t.build.op(op, {v}, {{AttrName::approx, 1}}) : t.build.op(op, {v}));
}

/// Records an op; for f64, for which the hardware has no instruction, calls `of_double`.
Tile unary_float(std::string_view what, Opcode op, const Arg& x, Tile (*of_double)(const Tile&)) {
  Tracer& t = Tracer::at(x.loc(), what);
  const bool wide = dsl::promote_types(t, what, std::span(&x, 1)) == DType::f64;
  return wide ? dsl::composed(what, x, of_double) : unary_float(what, op, x);
}

/// Records a hardware approximation, which does not exist for f64.
Tile approximate(std::string_view what, Opcode op, const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), what);
  if (dsl::promote_types(t, what, std::span(&x, 1)) == DType::f64)
    fail(ErrorId::f64_approximation, t.build.loc, {}, what);
  return unary_float(what, op, x);
}

Tile unary_integer(std::string_view what, Opcode op, const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), what);
  const DType d = dsl::promote_types(t, what, std::span(&x, 1));
  dsl::require_integers(what, d, x.loc());
  return t.tile(t.build.op(op, {dsl::operand(t, x, d)}));
}

}  // namespace

Tile cast(const Arg& x, DType to) {
  Tracer& t = Tracer::at(x.loc(), "cast");
  if (!x.is_literal() && t.type(x).is_pointer())
    fail(ErrorId::pointer_operand, x.loc(), {t.origin(t.value(x), "the operand")}, "cast");
  ir::Value v = dsl::operand(t, x, to);
  // An explicit type applies to tensors of all sizes.
  if (is_integer(to)) v = t.indices.restated(t.build, v, dsl::IndexTypes::Kind::Number);
  if (!x.is_literal())
    if (const auto at = t.indexed_by.find(t.value(x)); at != t.indexed_by.end())
      t.indexed_by[v] = at->second;
  return t.tile(v);
}

Tile bitcast(const Arg& x, DType to) {
  Tracer& t = Tracer::at(x.loc(), "bitcast");
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  if (size_bits(type.dtype()) != size_bits(to))
    fail(ErrorId::bitcast_width, x.loc(), {t.origin(v, "the operand")}, name(type.dtype()),
         size_bits(type.dtype()), name(to), size_bits(to));
  return t.tile(type.dtype() == to ? v : t.build.op(Opcode::Bitcast, {v}, type.with_dtype(to)));
}

Tile where(const Arg& condition, const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(condition.loc(), "where");
  const Arg choices[] = {a, b};
  const DType d = dsl::promote_types(t, "where", choices);
  if (!condition.is_literal() && t.type(condition).dtype() != DType::i1)
    fail(ErrorId::condition_type, condition.loc(), {t.origin(t.value(condition), "the condition")},
         "where", name(t.type(condition).dtype()), "compare, e.g. x != 0");
  ir::Value values[] = {dsl::truth(t, condition), dsl::operand(t, a, d), dsl::operand(t, b, d)};
  dsl::broadcast_shapes(t, "where", values, condition.loc());
  return t.tile(t.build.op(Opcode::Select, std::span<const ir::Value>(values)));
}

Tile min(const Arg& a, const Arg& b) { return dsl::record_extreme("min", Opcode::Min, a, b); }
Tile max(const Arg& a, const Arg& b) { return dsl::record_extreme("max", Opcode::Max, a, b); }
Tile clamp(const Arg& x, const Arg& low, const Arg& high) {
  const Tracer::Pin pin(Tracer::at(x.loc(), "clamp"), x.loc());
  return min(max(x, low), high);
}
Tile abs(const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), "abs");
  dsl::require_arithmetic("abs", dsl::promote_types(t, "abs", std::span(&x, 1)), x.loc());
  return dsl::record("abs", Opcode::Abs, {x});
}
Tile fma(const Arg& a, const Arg& b, const Arg& c) {
  Tracer& t = Tracer::at(a.loc(), "fma");
  const Arg args[] = {a, b, c};
  dsl::require_floats("fma", dsl::promote_types(t, "fma", args), a.loc());
  return dsl::record("fma", Opcode::Fma, {a, b, c});
}
Tile conditional_rescale(const Arg& x, const Arg& by) {
  Tracer& t = Tracer::at(x.loc(), "conditional_rescale");
  const Arg args[] = {x, by};
  dsl::require_floats("conditional_rescale", dsl::promote_types(t, "conditional_rescale", args),
                      x.loc());
  return dsl::record("conditional_rescale", Opcode::Mul, {x, by}, {{AttrName::skip_if_one, 1}});
}
Tile cdiv(const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), "cdiv");
  const Arg args[] = {a, b};
  const DType d = dsl::promote_types(t, "cdiv", args);
  dsl::require_integers("cdiv", d, a.loc());
  const Tracer::Pin pin(t, a.loc());
  if (size_bits(d) >= 32) return (a + b - 1) / b;
  const Tile divisor = cast<i32>(b);  // the sum of two narrow numbers does not wrap in i32
  return cast((cast<i32>(a) + divisor - 1) / divisor, d);
}
Tile mulhi(const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), "mulhi");
  const Arg args[] = {a, b};
  dsl::require_integers("mulhi", dsl::promote_types(t, "mulhi", args), a.loc());
  return dsl::record("mulhi", Opcode::MulHi, {a, b});
}
Tile popc(const Arg& x) { return unary_integer("popc", Opcode::Popc, x); }
Tile clz(const Arg& x) { return unary_integer("clz", Opcode::Clz, x); }

Tile exp(const Arg& x) { return unary_float("exp", Opcode::Exp, x, dsl::elementary::exp_of); }
Tile exp2(const Arg& x) { return unary_float("exp2", Opcode::Exp2, x, dsl::elementary::exp2_of); }
Tile log(const Arg& x) { return unary_float("log", Opcode::Log, x, dsl::elementary::log_of); }
Tile log2(const Arg& x) { return unary_float("log2", Opcode::Log2, x, dsl::elementary::log2_of); }
Tile sqrt(const Arg& x) { return unary_float("sqrt", Opcode::Sqrt, x); }
Tile rsqrt(const Arg& x) {
  return unary_float("rsqrt", Opcode::Rsqrt, x, dsl::elementary::rsqrt_of);
}
Tile rcp(const Arg& x) { return unary_float("rcp", Opcode::Rcp, x); }
Tile sin(const Arg& x) { return unary_float("sin", Opcode::Sin, x, dsl::elementary::sin_of); }
Tile cos(const Arg& x) { return unary_float("cos", Opcode::Cos, x, dsl::elementary::cos_of); }
Tile tanh(const Arg& x) { return unary_float("tanh", Opcode::Tanh, x, dsl::elementary::tanh_of); }
Tile erf(const Arg& x) { return unary_float("erf", Opcode::Erf, x, dsl::elementary::erf_of); }
Tile floor(const Arg& x) { return unary_float("floor", Opcode::Floor, x); }
Tile ceil(const Arg& x) { return unary_float("ceil", Opcode::Ceil, x); }
Tile round(const Arg& x) { return unary_float("round", Opcode::Round, x); }
Tile trunc(const Arg& x) { return unary_float("trunc", Opcode::Trunc, x); }
Tile rcp_approx(const Arg& x) { return unary_float("rcp_approx", Opcode::Rcp, x, true); }
Tile tanh_approx(const Arg& x) { return approximate("tanh_approx", Opcode::TanhApprox, x); }
Tile sin_approx(const Arg& x) { return approximate("sin_approx", Opcode::SinApprox, x); }
Tile cos_approx(const Arg& x) { return approximate("cos_approx", Opcode::CosApprox, x); }

namespace {

/// Returns a sigmoid with its slope, whose factor 1 - s is accurate wherever s is.
Tile with_slope_of_sigmoid(const Tile& s, const Tile& x) {
  return with_gradient(s, x, s * (1.0f - s));
}

/// 1 / (1 + e^-v): the power is 2^p with rounded p, times 1 plus the rest of the exponent. Within
/// the bounds neither factor overflows; beyond them the result is 0 or 1.
Tile sigmoid_of(const Tile& v) {
  if (v.dtype() == DType::f64) return with_slope_of_sigmoid(rcp_approx(1.0 + exp(-v)), v);
  constexpr float kBound = 88.5f;
  const Tile x = max(min(-v, kBound, Nan::propagate), -kBound, Nan::propagate);
  const Tile p = x * std::numbers::log2e;
  const Tile power = exp2(p), rest = fma(p, -std::numbers::ln2, x);
  return with_slope_of_sigmoid(rcp_approx(1.0f + fma(power, rest, power)), v);
}

Tile silu_of(const Tile& v) {
  const Tile s = sigmoid_of(v), y = v * s;
  return with_gradient(y, v, fma(y, 1.0f - s, s));
}

/// Returns GELU with its slope; `tail` is the distribution function of the normal distribution at
/// -|v|.
Tile with_slope_of_gelu(const Tile& y, const Tile& v, const Tile& tail) {
  constexpr double kDensity = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const Tile density = kDensity * exp2(v * v * (-0.5 * std::numbers::log2e));
  return with_gradient(y, v, fma(v, density, where(v < 0.0f, tail, 1.0f - tail)));
}

/// max(v, 0) - |v| erfc(|v| / sqrt 2) / 2, which stays accurate far below 0, with the second factor
/// as 2^q(|v|). q(0) is exactly -1, so that small numbers keep their precision. The other
/// coefficients are a least-squares fit on [0, 8], reweighted to minimize the largest error. q is
/// decreasing: at 16, where |v| is clamped because of infinities, the power is 0.
Tile gelu_of(const Tile& v) {
  if (v.dtype() == DType::f64) {
    const Tile share = erf(v * (std::numbers::sqrt2 / 2));
    return with_slope_of_gelu(0.5 * v * (1.0 + share), v, 0.5 * (1.0 - abs(share)));
  }
  constexpr std::array kFit{-2.17657287748807e-07f,  3.7924121443211334e-06f, 5.22007985637174e-06f,
                            -0.0006524693453684449f, 0.007795403245836496f,   -0.0530288890004158f,
                            -0.4590306282043457f,    -1.1511247158050537f,    -1.0f};
  const Tile size = min(abs(v), 16.0f);
  Tile q = fma(size, kFit[0], kFit[1]);
  for (std::size_t i = 2; i < kFit.size(); ++i) q = fma(q, size, kFit[i]);
  const Tile tail = exp2(q);
  return with_slope_of_gelu(fma(-size, tail, max(v, 0.0f, Nan::propagate)), v, tail);
}

Tile gelu_tanh_of(const Tile& v) {
  constexpr double kLinear = std::numbers::inv_sqrtpi * std::numbers::sqrt2,
                   kCubic = 0.044715 * kLinear;
  const Tile half = v * 0.5, curve = v * fma(v * v, kCubic, kLinear);
  // The hardware approximation supports f32 only.
  return fma(half, v.dtype() == DType::f64 ? tanh(curve) : tanh_approx(curve), half);
}

}  // namespace

Tile sigmoid(const Arg& x) { return dsl::composed("sigmoid", x, sigmoid_of); }
Tile silu(const Arg& x) { return dsl::composed("silu", x, silu_of); }
Tile gelu(const Arg& x) { return dsl::composed("gelu", x, gelu_of); }
Tile gelu_tanh_approx(const Arg& x) { return dsl::composed("gelu_tanh_approx", x, gelu_tanh_of); }
Tile softplus(const Arg& x) {
  return dsl::composed("softplus", x, [](const Tile& v) {
    return with_gradient(max(v, 0.0f) + log1p(exp(-abs(v))), v, sigmoid_of(v));
  });
}
Tile isnan(const Arg& x) {
  return dsl::composed("isnan", x, [](const Tile& v) { return v != v; });
}
Tile isinf(const Arg& x) {
  return dsl::composed("isinf", x, [](const Tile& v) { return abs(v) == inf; });
}

Tile pow(const Arg& x, const Arg& y) {
  Tracer& t = Tracer::at(x.loc(), "pow");
  const Arg args[] = {x, y};
  const DType d = dsl::promote_types(t, "pow", args);
  dsl::require_floats("pow", d, x.loc());
  const Tracer::Pin pin(t, x.loc());
  const DType wide = d == DType::f64 ? d : DType::f32;
  const Tile base = cast(x, wide), power = cast(y, wide);
  const Tile size = exp2(power * log2(abs(base)));
  const Tile is_whole = floor(power) == power,
             is_odd = is_whole && floor(power * 0.5f) != power * 0.5f;
  const Tile sign =
      d == DType::f64 ? bitcast<i64>(base) < 0 : bitcast<i32>(base) < 0;  // -0 is negative, too
  const Tile known =
      where(base < 0.0f && base > -inf && !is_whole, nan, where(sign && is_odd, -size, size));
  // NaN and infinities to the power of 0 are 1, too.
  const Tile is_one = power == 0.0f || base == 1.0f || (base == -1.0f && abs(power) == inf);
  return cast(where(is_one, 1.0f, known), d);
}

// ---- reassociable sums --------------------------------------------------------------------------
namespace {

/// Returns true for ops that the pass hoist_broadcast_terms may rearrange. Ops on scalars and lines
/// are excluded, because their cost does not matter.
bool is_sum_of_floats(const ir::Kernel& k, const ir::OpData& d) {
  if (d.results.size() != 1) return false;
  const ir::Type type = k.type(d.results[0]);
  if (!type.is_tile() || type.rank() < 2 || type.is_pointer() || !is_float(type.dtype()))
    return false;
  if (d.attrs.i(AttrName::skip_if_one) == 1) return false;  // otherwise it would not be skipped
  using enum Opcode;
  if (d.opcode == Cast) return !is_float(k.type(d.operands[0]).dtype());
  return d.is(Add, Sub, Neg, Mul, Div, Fma);
}

}  // namespace

detail::ReassocScope::ReassocScope() : first_(Tracer::at({}, "reassociable").kernel.op_count()) {}
detail::ReassocScope::~ReassocScope() {
  Tracer* t = Tracer::current();
  if (!t) return;
  for (std::size_t i = first_; i < t->kernel.op_count(); ++i) {
    ir::OpData& d = t->kernel[ir::OpId(static_cast<std::uint32_t>(i))];
    if (is_sum_of_floats(t->kernel, d)) d.attrs.set(AttrName::reassoc, std::int64_t{1});
  }
}

}  // namespace tegula
