// Expression templates: arithmetic, bits, comparison, selection and unary float functions.
//
// Integers wrap in the IR, but signed overflow is undefined in C++. Sums and products are therefore
// written in unsigned arithmetic (`lane * 4u`) and converted back where the sign matters. Floats
// below 32 bits are computed in f32 and rounded once.
#include <fmt/format.h>

#include <array>
#include <initializer_list>

#include "codegen/cuda/emitter.h"

namespace tegula::codegen::cuda {
namespace {

Text call(std::string_view function, std::initializer_list<Text> arguments) {
  std::string s = fmt::format("{}(", function);
  const char* separator = "";
  for (const Text& a : arguments) {
    s += separator + a.s;
    separator = ", ";
  }
  return s + ")";
}

Text inexact(Text t) {
  t.exact = false;
  return t;
}

/// Returns f32 for floats below 32 bits, else the type itself.
DType wide_type(DType d) { return is_float(d) && size_bits(d) < 32 ? DType::f32 : d; }

Text narrowed(const Element& x, const Text& t) {
  return convert(x.e, t, wide_type(x.out().dtype), x.out().dtype);
}

std::string unsigned_type(const Element& x) {
  return x.e.use_type(size_bits(x.out().dtype) == 64 ? "u64" : "u32");
}

bool is_wide_int(DType d) { return is_integer(d) && size_bits(d) >= 32; }

/// Returns operand i for unsigned arithmetic. Clears `needs_conversion` if the operand already
/// makes the whole expression unsigned.
Text modular_operand(const Element& x, std::size_t i, bool& needs_conversion) {
  const DType d = x.out().dtype;
  const ir::Value v = x.e.operand(x.id, i);
  if (const auto c = x.e.constant(v); c && *c >= 0 && is_signed(d)) {
    needs_conversion = false;
    return fmt::format("{}{}", *c, size_bits(d) == 64 ? "ull" : "u");
  }
  const Text t = x.loose(i);
  if (!t.exact) needs_conversion = false;
  return t;
}

/// Returns `a op b` with wraparound.
Text modular(const Element& x, const std::string& op, Prec prec) {
  const DType d = x.out().dtype;
  if (is_bool(d))
    return Text(fmt::format("bool(({} {} {}) & 1)", x.x(0).within(Prec::Unary), op,
                            x.x(1).within(Prec::Unary)));
  if (!is_wide_int(d)) {
    // C++ promotes 8 and 16 bits to int, which only a product of two u16 can overflow.
    Text a = x.x(0);
    if (op == "*") a = Text(fmt::format("{}({})", x.e.use_type("u32"), a.s));
    return inexact(infix(a, op, x.x(1), prec));
  }
  if (!is_signed(d)) return infix(x.loose(0), op, x.loose(1), prec);
  bool needs_conversion = true;
  Text a = modular_operand(x, 0, needs_conversion);
  const Text b = modular_operand(x, 1, needs_conversion);
  if (needs_conversion) a = Text(fmt::format("{}({})", unsigned_type(x), a.s));
  return inexact(infix(a, op, b, prec));
}

Text arithmetic(const Element& x, const std::string& op, Prec prec) {
  if (!x.is_float()) return modular(x, op, prec);
  return narrowed(x, infix(x.wide(0), op, x.wide(1), prec));
}

Text bitwise(const Element& x, const std::string& op, const std::string& logical, Prec prec,
             Prec logical_prec) {
  if (is_bool(x.out().dtype)) {
    if (x.index.empty()) return infix(x.x(0), logical, x.x(1), logical_prec);
    // Use & and | here: short-circuit operators create one branch per register. NVVM turned the
    // last one into a branch and, with it, copied an accumulator that a wgmma had yet to write
    // (C7514). bool(..) prevents the narrowing of an int in a braced initializer.
    return {
        "bool(" + x.x(0).within(Prec::Unary) + " " + op + " " + x.x(1).within(Prec::Unary) + ")",
        Prec::Primary};
  }
  const Text a = x.loose(0), b = x.loose(1);
  // Nested sums get parentheses that C++ does not require. Any upper bits come from the operands.
  Text out{a.within(a.prec == prec ? prec : Prec::Unary) + " " + op + " " + b.within(Prec::Unary),
           prec};
  out.exact = a.exact && b.exact;
  return out;
}

Text extreme(const Element& x, bool is_max) {
  const std::string_view op = is_max ? "max" : "min";
  if (!x.is_float()) return call(op, {x.x(0), x.x(1)});
  const bool propagate = x.attrs().s(AttrName::nan, "ignore") == "propagate";
  const DType wide = wide_type(x.out().dtype);
  const std::string type = x.e.c_type({wide, false});
  const std::string f =
      x.e.ptx_value(fmt::format("{}{}_{}", op, propagate ? "_nan" : "", name(wide)), type,
                    {type + " a", type + " b"}, ptx::float_minmax(wide, is_max, propagate));
  return narrowed(x, call(f, {x.wide(0), x.wide(1)}));
}

/// Returns a call of a function that wraps an instruction of ptx::unary.
Text function_of(const Element& x, std::string_view mnemonic) {
  const DType wide = wide_type(x.out().dtype);
  const bool approx = x.attrs().i(AttrName::approx) != 0;
  const ptx::Asm a = ptx::unary(mnemonic, wide, approx);
  if (a.text.empty())
    x.e.refuse(x.id, fmt::format("there is no such instruction for {}", name(wide)));
  const std::string type = x.e.c_type({wide, false});
  // exp2_approx names the hardware's ex2.approx.ftz; correctly rounded functions need no suffix.
  const bool is_approx = a.text.find("approx") != std::string::npos &&
                         mnemonic.find("approx") == std::string_view::npos;
  const std::string f =
      x.e.ptx_value(fmt::format("{}{}_{}", mnemonic, is_approx ? "_approx" : "", name(wide)), type,
                    {type + " x"}, a);
  return narrowed(x, call(f, {x.wide(0)}));
}

/// Returns true for conversions between i32 and u32, and between i64 and u64.
bool changes_sign_only(DType from, DType to) {
  return is_wide_int(from) && is_wide_int(to) && size_bits(from) == size_bits(to) &&
         is_signed(from) != is_signed(to);
}

Text with_other_sign(const Element& x) {
  const Text t = x.loose();
  if (is_signed(x.out().dtype)) return inexact(t);
  // An inexact signed sum is already unsigned.
  if (!t.exact) return {t.s, t.prec};
  return Text(fmt::format("{}({})", unsigned_type(x), t.s));
}

/// Returns a quotient or a remainder. Uses the C++ operator only for constant divisors other than 0
/// and -1, where it is always defined, and the PTX instruction otherwise.
Text divide(const Element& x, bool remainder) {
  const DType d = x.out().dtype;
  const auto c = x.e.constant(x.e.operand(x.id, 1));
  const bool is_plain = (c && *c != 0 && *c != -1);
  if (is_plain) return infix(x.x(0), remainder ? "%" : "/", x.x(1), Prec::Mul);
  const DType wide = size_bits(d) >= 32 ? d : is_signed(d) ? DType::i32 : DType::u32;
  const std::string type = x.e.c_type({wide, false});
  const std::string f =
      x.e.ptx_value(fmt::format("{}_{}", remainder ? "rem" : "div", name(wide)), type,
                    {type + " a", type + " b"}, ptx::int_div(wide, remainder));
  Text out = call(f, {x.x(0), x.x(1)});
  out.exact = size_bits(d) >= 32;  // -128 / -1
  return out;
}

Text shift(const Element& x, bool left) {
  const DType d = x.out().dtype;
  const auto amount = x.e.constant(x.e.operand(x.id, 1));
  const int bits = size_bits(d), wide_bits = bits == 64 ? 64 : 32;
  if (amount && *amount >= 0 && *amount < bits) {
    const Text n = fmt::format("{}", *amount);
    if (!left) return {x.x(0).within(Prec::Unary) + " >> " + n.s, Prec::Shift};
    Text a = x.loose(0);
    if (is_signed(d) && a.exact) a = Text(fmt::format("{}({})", unsigned_type(x), a.s));
    const Text out{a.within(Prec::Unary) + " << " + n.s, Prec::Shift};
    return is_signed(d) || bits < 32 ? inexact(out) : out;
  }
  const DType wide = bits >= 32 ? d : is_signed(d) ? DType::i32 : DType::u32;
  const std::string type = x.e.c_type({wide, false});
  const std::string f = x.e.ptx_value(fmt::format("{}_{}", left ? "shl" : "shr", name(wide)), type,
                                      {type + " a", x.e.use_type("u32") + " amount"},
                                      ptx::shift(left, is_signed(d), wide_bits));
  // An amount with a bit above the low six is too large.
  const Text n = bits == 64 ? Text(fmt::format("min({}({}), 64ull)", x.e.use_type("u64"), x.x(1).s))
                 : bits < 32 ? Text(fmt::format("u{}({})", bits, x.x(1).s))
                             : x.x(1);
  if (bits < 32) x.e.use_type(fmt::format("u{}", bits));
  Text out = call(f, {x.x(0), n});
  out.exact = bits >= 32 || !left;
  return out;
}

/// Returns -x by a PTX instruction: NVRTC would negate in the way that ptx::int_neg avoids.
Text negated(const Element& x) {
  const DType d = x.out().dtype;
  const DType wide = size_bits(d) >= 32 ? d : is_signed(d) ? DType::i32 : DType::u32;
  const std::string type = x.e.c_type({wide, false});
  const std::string f =
      x.e.ptx_value(fmt::format("neg_{}", name(wide)), type, {type + " x"}, ptx::int_neg(wide));
  Text out = call(f, {x.x()});
  out.exact = size_bits(d) >= 32;  // -(-128)
  return out;
}

struct Comparison {
  std::string_view pred;
  const char* op;
  Prec prec;
};
constexpr std::array kComparisons{
    Comparison{"eq", "==", Prec::Equality}, Comparison{"ne", "!=", Prec::Equality},
    Comparison{"lt", "<", Prec::Relation},  Comparison{"le", "<=", Prec::Relation},
    Comparison{"gt", ">", Prec::Relation},  Comparison{"ge", ">=", Prec::Relation}};

/// Return the masks of the sign and magnitude bits of a small float.
std::string sign_bit(DType d) { return size_bits(d) == 16 ? "0x8000" : "0x80"; }
std::string magnitude_bits(DType d) { return size_bits(d) == 16 ? "0x7fff" : "0x7f"; }

/// Returns a call of an intrinsic that counts bits, converted from its result type, int.
Text count_bits(const Element& x, const std::string& intrinsic, const std::string& bits) {
  const DType d = x.out().dtype;
  const Text n = call(size_bits(d) == 64 ? intrinsic + "ll" : intrinsic, {Text(bits)});
  return d == DType::i32 || size_bits(d) < 32
             ? n
             : Text(fmt::format("{}({})", x.e.c_type({d, false}), n.s));
}

/// Returns the integer operand of a bit count, cast so that it is not sign-extended.
std::string bits(const Element& x) {
  const int n = size_bits(x.out().dtype);
  if (n >= 32 || !is_signed(x.out().dtype)) return x.x().s;
  return fmt::format("{}({})", x.e.use_type(n == 8 ? "u8" : "u16"), x.x().s);
}

}  // namespace

Text cuda_Add(const Element& x) { return arithmetic(x, "+", Prec::Add); }
Text cuda_Sub(const Element& x) { return arithmetic(x, "-", Prec::Add); }
Text cuda_Mul(const Element& x) { return arithmetic(x, "*", Prec::Mul); }

Text cuda_Div(const Element& x) {
  if (!x.is_float()) return divide(x, false);
  const DType wide = wide_type(x.out().dtype);
  if (x.attrs().i(AttrName::approx) == 0 || wide == DType::f64)
    return arithmetic(x, "/", Prec::Mul);
  const std::string f =
      x.e.ptx_value("div_approx_f32", "float", {"float a", "float b"}, ptx::float_div(wide, true));
  return narrowed(x, call(f, {x.wide(0), x.wide(1)}));
}

Text cuda_Rem(const Element& x) { return divide(x, true); }

Text cuda_MulHi(const Element& x) {
  const DType d = x.out().dtype;
  const int n = size_bits(d);
  if (n >= 32)
    return call(fmt::format("__{}mul{}hi", is_signed(d) ? "" : "u", n == 64 ? "64" : ""),
                {x.x(0), x.x(1)});
  const Text product =
      infix(is_signed(d) ? x.x(0) : Text(fmt::format("{}({})", x.e.use_type("u32"), x.x(0).s)), "*",
            x.x(1), Prec::Mul);
  return infix(product, ">>", fmt::format("{}", n), Prec::Shift);
}

Text cuda_Fma(const Element& x) {
  const DType wide = wide_type(x.out().dtype);
  if (x.is_float() && x.out().dtype == DType::f16) {
    const std::string type = x.e.c_type(x.out());
    const std::string f = x.e.ptx_value("fma_f16", type, {type + " a", type + " b", type + " c"},
                                        ptx::half_op("fma", DType::f16, false, false));
    return call(f, {x.x(0), x.x(1), x.x(2)});
  }
  if (x.is_float())
    return narrowed(
        x, call(wide == DType::f64 ? "__fma_rn" : "__fmaf_rn", {x.wide(0), x.wide(1), x.wide(2)}));
  const std::string type = unsigned_type(x);
  return inexact({fmt::format("{0}({1}) * {0}({2}) + {0}({3})", type, x.x(0).s, x.x(1).s, x.x(2).s),
                  Prec::Add});
}

Text cuda_Min(const Element& x) { return extreme(x, false); }
Text cuda_Max(const Element& x) { return extreme(x, true); }

Text cuda_Neg(const Element& x) {
  const DType d = x.out().dtype;
  if (is_float(d) && size_bits(d) < 32) return infix(x.x(), "^", sign_bit(d), Prec::BitXor);
  if (is_float(d)) return {"-" + x.x().within(Prec::Primary), Prec::Unary};
  if (is_bool(d)) return x.x();
  return negated(x);
}

Text cuda_Abs(const Element& x) {
  const DType d = x.out().dtype;
  if (is_float(d) && size_bits(d) < 32) return infix(x.x(), "&", magnitude_bits(d), Prec::BitAnd);
  if (d == DType::f32) return call("fabsf", {x.x()});
  if (d == DType::f64) return call("fabs", {x.x()});
  if (!is_signed(d)) return x.x();
  const std::string type = x.e.c_type({d, false}), wide = unsigned_type(x);
  const std::string f =
      x.e.function(fmt::format("abs_{}", name(d)), fmt::format("{0} NAME({0} x)", type),
                   fmt::format("  return {}(x < 0 ? 0 - {}(x) : {}(x));\n", type, wide, wide));
  return call(f, {x.x()});
}

Text cuda_And(const Element& x) { return bitwise(x, "&", "&&", Prec::BitAnd, Prec::And); }
Text cuda_Or(const Element& x) { return bitwise(x, "|", "||", Prec::BitOr, Prec::Or); }
Text cuda_Xor(const Element& x) { return bitwise(x, "^", "!=", Prec::BitXor, Prec::Equality); }

Text cuda_Not(const Element& x) {
  const DType d = x.out().dtype;
  if (is_bool(d)) return {"!" + x.x().within(Prec::Primary), Prec::Unary};
  const Text a = x.loose();
  Text out{"~" + a.within(Prec::Primary), Prec::Unary};
  out.exact = a.exact && (size_bits(d) >= 32 || is_signed(d));
  return out;
}

Text cuda_Shl(const Element& x) { return shift(x, true); }
Text cuda_Shr(const Element& x) { return shift(x, false); }
Text cuda_Popc(const Element& x) { return count_bits(x, "__popc", bits(x)); }

Text cuda_Clz(const Element& x) {
  const int n = size_bits(x.out().dtype);
  const Text zeros = count_bits(x, "__clz", bits(x));
  return n >= 32 ? zeros : infix(zeros, "-", fmt::format("{}", 32 - n), Prec::Add);
}

Text cuda_Cmp(const Element& x) {
  const std::string_view pred = x.attrs().s(AttrName::pred);
  for (const Comparison& c : kComparisons)
    if (c.pred == pred) return infix(x.wide(0), c.op, x.wide(1), c.prec);
  x.e.refuse(x.id, "has an unknown predicate");
}

Text cuda_Select(const Element& x) {
  return {fmt::format("{} ? {} : {}", x.x(0).within(Prec::Or), x.x(1).within(Prec::Or),
                      x.x(2).within(Prec::Or)),
          Prec::Choice};
}

Text cuda_Cast(const Element& x) {
  const ir::CastMode mode = ir::cast_mode(x.attrs(), x.in().dtype, x.out().dtype);
  if (x.in().pointer || x.out().pointer)
    return {fmt::format("({})({})", x.e.c_type(x.out()), x.x().s), Prec::Unary};
  if (!mode.saturate && changes_sign_only(x.in().dtype, x.out().dtype)) return with_other_sign(x);
  return convert(x.e, x.x(), x.in().dtype, x.out().dtype, mode);
}

Text cuda_Bitcast(const Element& x) {
  const ir::Elem from = x.in(), to = x.out();
  const std::string type = x.e.c_type(to);
  if (from.pointer || to.pointer) return {fmt::format("({})({})", type, x.x().s), Prec::Unary};
  if (changes_sign_only(from.dtype, to.dtype)) return with_other_sign(x);
  const bool is_native =
      (is_float(from.dtype) || is_float(to.dtype)) && is_float(from.dtype) != is_float(to.dtype);
  if (!is_native || size_bits(to.dtype) < 32) return Text(fmt::format("{}({})", type, x.x().s));
  const bool wide = size_bits(to.dtype) == 64;
  if (is_float(from.dtype)) {
    const Text as_signed = call(wide ? "__double_as_longlong" : "__float_as_int", {x.x()});
    return is_signed(to.dtype) ? as_signed : Text(fmt::format("{}({})", type, as_signed.s));
  }
  return call(wide ? "__longlong_as_double" : "__int_as_float", {x.x()});
}

Text cuda_AddPtr(const Element& x) { return infix(x.x(0), "+", x.x(1), Prec::Add); }

#define FUNCTION(Name, mnemonic) \
  Text cuda_##Name(const Element& x) { return function_of(x, mnemonic); }
FUNCTION(Exp2, "exp2")
FUNCTION(Log2, "log2")
FUNCTION(Sqrt, "sqrt")
FUNCTION(Rsqrt, "rsqrt")
FUNCTION(Rcp, "rcp")
FUNCTION(TanhApprox, "tanh_approx")
FUNCTION(SinApprox, "sin_approx")
FUNCTION(CosApprox, "cos_approx")
FUNCTION(Floor, "floor")
FUNCTION(Ceil, "ceil")
FUNCTION(Round, "round")
FUNCTION(Trunc, "trunc")
#undef FUNCTION

}  // namespace tegula::codegen::cuda
