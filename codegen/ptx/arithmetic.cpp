// Arithmetic, approximate functions and all conversions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "codegen/ptx/instructions.h"
#include "support/errors.h"

namespace tegula::codegen::ptx {
namespace {

bool is_narrow(DType d) { return size_bits(d) < 32; }
bool is_f8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }
/// Returns true for integers of 8 and 16 bits, which f32 represents exactly.
bool is_small_int(DType d) { return is_integer(d) && is_narrow(d); }

struct Unary {
  std::string_view mnemonic, f32, f32_approx, f64;
};
constexpr std::array kUnary{
    Unary{"exp2", "ex2.approx.ftz.f32", "ex2.approx.ftz.f32", ""},
    Unary{"log2", "lg2.approx.ftz.f32", "lg2.approx.ftz.f32", ""},
    Unary{"sqrt", "sqrt.rn.f32", "sqrt.approx.ftz.f32", "sqrt.rn.f64"},
    Unary{"rsqrt", "rsqrt.approx.f32", "rsqrt.approx.f32", ""},
    Unary{"rcp", "rcp.rn.f32", "rcp.approx.ftz.f32", "rcp.rn.f64"},
    Unary{"tanh_approx", "tanh.approx.f32", "tanh.approx.f32", ""},
    Unary{"sin_approx", "sin.approx.ftz.f32", "sin.approx.ftz.f32", ""},
    Unary{"cos_approx", "cos.approx.ftz.f32", "cos.approx.ftz.f32", ""},
    Unary{"floor", "cvt.rmi.f32.f32", "cvt.rmi.f32.f32", "cvt.rmi.f64.f64"},
    Unary{"ceil", "cvt.rpi.f32.f32", "cvt.rpi.f32.f32", "cvt.rpi.f64.f64"},
    Unary{"round", "cvt.rni.f32.f32", "cvt.rni.f32.f32", "cvt.rni.f64.f64"},
    Unary{"trunc", "cvt.rzi.f32.f32", "cvt.rzi.f32.f32", "cvt.rzi.f64.f64"},
};

// ---- conversions: x (#1) -> w, an f32 that rounds like x does -> result (#0) -------------------
// A wide value that is converted to a narrow float through f32 must not be rounded twice. It is
// first rounded to odd (toward zero; the last bit is set if that was inexact), after which any
// further rounding equals a single rounding.

std::string source_name(DType d) {
  // 8-bit integers are passed extended to 16 bits.
  if (d == DType::i8) return "s16";
  if (d == DType::u8) return "u16";
  return std::string(type_suffix(d));
}

std::string odd_to_f32(DType from) {
  const std::string t = source_name(from);
  const std::string_view reg = from == DType::f64 ? "f64" : size_bits(from) == 64 ? "b64" : "b32";
  return fmt::format(
      ".reg .{1} back; .reg .pred exact; .reg .b32 odd;\n"
      "cvt.rz.f32.{0} w, #1;\ncvt.{2}{0}.f32 back, w;\n"
      "setp.{3}.{0} exact, back, #1;\nmov.b32 odd, w;\n@!exact or.b32 odd, odd, 1;\nmov.b32 w, "
      "odd;\n",
      t, reg, from == DType::f64 ? "" : "rzi.", from == DType::f64 ? "equ" : "eq");
}

/// Returns statements that set `w` (f32) from #1: exactly, or rounded to odd where f32 is too
/// narrow.
std::string to_f32(DType from) {
  if (from == DType::f32) return "mov.f32 w, #1;\n";
  if (from == DType::bf16) return ".reg .b16 zero;\nmov.b16 zero, 0;\nmov.b32 w, {zero, #1};\n";
  if (from == DType::f16) return "cvt.f32.f16 w, #1;\n";
  if (is_f8(from))
    return fmt::format(
        ".reg .b32 h2; .reg .b16 lo, hi;\ncvt.rn.f16x2.{}x2 h2, #1;\nmov.b32 {{lo, hi}}, h2;\n"
        "cvt.f32.f16 w, lo;\n",
        type_suffix(from));
  if (is_small_int(from)) return fmt::format("cvt.rn.f32.{} w, #1;\n", source_name(from));
  return odd_to_f32(from);
}

std::string via_f32(DType from, std::string_view rest) {
  return fmt::format("{{\n.reg .f32 w;\n{}{}\n}}", to_f32(from), rest);
}

std::string_view direction(bool to_zero) { return to_zero ? "rz" : "rn"; }

std::string to_f8(DType from, DType to) {
  return via_f32(from,
                 fmt::format("cvt.rn.satfinite.{}x2.f32 #0, 0f00000000, w;", type_suffix(to)));
}

std::string narrow_float(DType from, DType to, const ir::TargetRow& target, bool to_zero) {
  const std::string_view r = direction(to_zero);
  const bool direct =
      from == DType::f32 || (!is_float(from) && !is_small_int(from)) || from == DType::f64;
  if (direct && (from == DType::f32 || to == DType::f16 || target.has_bf16_arithmetic))
    return fmt::format("cvt.{}.{}.{} #0, #1;", r, type_suffix(to), source_name(from));
  return via_f32(from, fmt::format("cvt.{}.{}.f32 #0, w;", r, type_suffix(to)));
}

std::string wide_float(DType from, DType to, bool to_zero) {
  if (from == DType::f64 || is_integer(from))
    return fmt::format("cvt.{}.{}.{} #0, #1;", direction(to_zero), type_suffix(to),
                       source_name(from));
  if (to == DType::f32) return via_f32(from, "mov.f32 #0, w;");
  if (from == DType::f32) return "cvt.f64.f32 #0, #1;";
  return via_f32(from, "cvt.f64.f32 #0, w;");
}

/// Returns a conversion that truncates, saturates, and converts NaN to 0: the hardware does that
/// for NaN only from f32 to 32 bits.
std::string to_int(DType from, DType to) {
  const bool wide = size_bits(to) == 64;
  const std::string_view source = from == DType::f64 ? "f64" : "f32";
  const std::string_view x = from == DType::f64 || from == DType::f32 ? "#1" : "w";
  const std::string type = fmt::format("{}{}", is_signed(to) ? 's' : 'u', wide ? 64 : 32);
  std::string s = fmt::format("{{\n.reg .b{} n; .reg .pred nan; .reg .f32 w;\n", wide ? 64 : 32);
  if (x == "w") s += to_f32(from);
  s += fmt::format("cvt.rzi.{}.{} n, {};\n", type, source, x);
  if (wide || from == DType::f64)
    s += fmt::format("setp.nan.{} nan, {}, {};\nselp.b{} n, 0, n, nan;\n", source, x, x,
                     wide ? 64 : 32);
  if (!is_narrow(to)) return s + fmt::format("mov.b{} #0, n;\n}}", wide ? 64 : 32);
  const int bits = size_bits(to);
  const std::int64_t high = (std::int64_t{1} << (is_signed(to) ? bits - 1 : bits)) - 1;
  s += fmt::format("min.{} n, n, {};\n", type, high);
  if (is_signed(to)) s += fmt::format("max.s32 n, n, {};\n", -high - 1);
  return s + "cvt.u16.u32 #0, n;\n}";
}

/// Makes a conversion end in the largest finite value instead of infinity, whose bits are one less.
std::string finite(std::string_view conversion, DType to) {
  const int bits = size_bits(to);
  const std::uint64_t infinity = to == DType::f16    ? 0x7c00
                                 : to == DType::bf16 ? 0x7f80
                                                     : 0x7f800000;
  return fmt::format(
      "{{\n.reg .pred inf; .reg .b{0} r, m;\n{1}\nmov.b{0} r, #0;\nand.b{0} m, r, {2};\n"
      "setp.eq.u{0} inf, m, {3};\n@inf sub.u{0} r, r, 1;\nmov.b{0} #0, r;\n}}",
      bits, conversion, (std::uint64_t{1} << (bits - 1)) - 1, infinity);
}

}  // namespace

Reg reg_of(ir::Elem e) {
  if (e.pointer) return Reg::b64;
  if (is_bool(e.dtype)) return Reg::pred;
  if (e.dtype == DType::f32) return Reg::f32;
  if (e.dtype == DType::f64) return Reg::f64;
  return size_bits(e.dtype) == 64 ? Reg::b64 : size_bits(e.dtype) == 32 ? Reg::b32 : Reg::b16;
}

std::string_view type_suffix(DType d) {
  static constexpr std::array<std::string_view, kDTypeCount> kSuffix{
      "pred", "s8",   "s16",  "s32", "s64",  "u8",  "u16", "u32",
      "u64",  "e4m3", "e5m2", "f16", "bf16", "f32", "f64"};
  return kSuffix[static_cast<std::size_t>(d)];
}

std::string_view matrix_suffix(std::string_view attr) {
  if (attr == "tf32") return "tf32";
  const auto d = dtype_from_name(attr);
  return d ? type_suffix(*d) : std::string_view();
}

Asm shift(bool left, bool is_signed, int bits) {
  const Reg r = bits == 64 ? Reg::b64 : Reg::b32;
  Asm a = pure(r, {r, Reg::b32});
  a.text = fmt::format("{}.{}{} #0, #1, #2;", left ? "shl" : "shr",
                       left        ? 'b'
                       : is_signed ? 's'
                                   : 'u',
                       bits);
  return a;
}

Asm int_div(DType d, bool remainder) {
  const Reg r = reg_of({d, false});
  Asm a = pure(r, {r, r});
  a.text = fmt::format("{}.{} #0, #1, #2;", remainder ? "rem" : "div", type_suffix(d));
  return a;
}

Asm int_neg(DType d) {
  const Reg r = reg_of({d, false});
  Asm a = pure(r, {r});
  if (size_bits(d) == 64)
    a.text = "neg.s64 #0, #1;";
  else
    a.text = fmt::format("{{ .reg .b64 w; cvt.s64.s{0} w, #1; neg.s64 w, w; cvt.u{0}.u64 #0, w; }}",
                         size_bits(d));
  return a;
}

Asm float_div(DType d, bool approx) {
  const Reg r = reg_of({d, false});
  Asm a = pure(r, {r, r});
  a.text = fmt::format("div.{}.{} #0, #1, #2;", approx && d == DType::f32 ? "full" : "rn",
                       type_suffix(d));
  return a;
}

Asm float_minmax(DType d, bool max, bool propagate_nan) {
  const Reg r = reg_of({d, false});
  Asm a = pure(r, {r, r});
  const std::string_view op = max ? "max" : "min";
  a.text = fmt::format("{}{}.{} #0, #1, #2;", op, propagate_nan ? ".NaN" : "", type_suffix(d));
  if (propagate_nan && d == DType::f64)
    a.text = fmt::format(
        "{{\n.reg .f64 m, s; .reg .pred nan;\n{}.f64 m, #1, #2;\nadd.rn.f64 s, #1, #2;\n"
        "setp.nan.f64 nan, #1, #2;\nselp.f64 #0, s, m, nan;\n}}",
        op);
  return a;
}

std::string_view half_arithmetic(std::string_view mnemonic, DType d) {
  // Sums of bf16 are rounded from f32; the min or max of two numbers needs no rounding.
  const bool is_extreme = mnemonic == "min" || mnemonic == "max";
  if (d != DType::f16 && !(d == DType::bf16 && is_extreme)) return {};
  static constexpr std::array<std::array<std::string_view, 2>, 6> kNames{{{"add", "add.rn"},
                                                                          {"sub", "sub.rn"},
                                                                          {"mul", "mul.rn"},
                                                                          {"fma", "fma.rn"},
                                                                          {"min", "min"},
                                                                          {"max", "max"}}};
  for (const auto& [op, name] : kNames)
    if (op == mnemonic) return name;
  return {};
}

Asm half_op(std::string_view mnemonic, DType d, bool pair, bool propagate_nan) {
  const Reg r = pair ? Reg::b32 : Reg::b16;
  const bool is_fma = mnemonic == "fma";
  Asm a = is_fma ? pure(r, {r, r, r}) : pure(r, {r, r});
  a.text = fmt::format("{}{}.{}{} #0, #1, #2{};", half_arithmetic(mnemonic, d),
                       propagate_nan ? ".NaN" : "", type_suffix(d), pair ? "x2" : "",
                       is_fma ? ", #3" : "");
  return a;
}

Asm unary(std::string_view mnemonic, DType d, bool approx) {
  const Reg r = reg_of({d, false});
  Asm a = pure(r, {r});
  for (const Unary& u : kUnary) {
    if (u.mnemonic != mnemonic) continue;
    const std::string_view op = d == DType::f64   ? u.f64
                                : d != DType::f32 ? ""
                                : approx          ? u.f32_approx
                                                  : u.f32;
    if (!op.empty()) a.text = fmt::format("{} #0, #1;", op);
  }
  return a;
}

Asm cast(DType from, DType to, const ir::TargetRow& target, ir::CastMode mode) {
  Asm a = pure(reg_of({to, false}), {reg_of({from, false})});
  if (is_bool(from) || is_bool(to)) return a;
  if ((is_f8(from) || is_f8(to)) && !target.has_f8) return a;
  if (!is_float(from) && !is_float(to)) {
    if (mode.saturate)
      a.text = fmt::format("cvt.sat.{}.{} #0, #1;", type_suffix(to), source_name(from));
    return a;
  }
  if (!is_float(to))
    a.text = to_int(from, to);
  else if (is_f8(to))
    a.text = mode.to_zero ? "" : to_f8(from, to);
  else if (is_narrow(to))
    a.text = narrow_float(from, to, target, mode.to_zero);
  else
    a.text = wide_float(from, to, mode.to_zero);
  // fp8 conversions saturate already; only 64-bit integers reach f64, and they do not overflow it.
  if (mode.saturate && is_float(to) && !is_f8(to) && to != DType::f64) a.text = finite(a.text, to);
  return a;
}

void require_conversions(const ir::Kernel& kernel) {
  using ir::Opcode;
  static constexpr Opcode kOnBits[] = {Opcode::Neg, Opcode::Abs, Opcode::Select, Opcode::Bitcast};
  static constexpr bool kElementwise[] = {
#define ROW(...) false,
#define ELEMENTWISE(...) true,
#include "ir/op_rows.h"
  };
  if (kernel.info.target->has_f8) return;
  const auto holds_f8 = [&](ir::Value v) {
    const ir::Elem e = kernel.type(v).elem();
    return !e.pointer && is_f8(e.dtype);
  };
  ir::walk(kernel, kernel.body(), [&](ir::OpId op) {
    const ir::OpData& d = kernel[op];
    if (!kElementwise[static_cast<std::size_t>(d.opcode)] ||
        std::ranges::find(kOnBits, d.opcode) != std::end(kOnBits))
      return;
    if (std::ranges::none_of(d.operands, holds_f8) && !holds_f8(d.results[0])) return;
    fail(ErrorId::f8_target, d.loc, {}, ir::info(d.opcode).mnemonic);
  });
}

Asm cast_pair(DType from, DType to) {
  const Reg r = reg_of({from, false});
  Asm a = pure(is_f8(to) ? Reg::b16 : Reg::b32, {r, r});
  a.text = fmt::format("cvt.rn.{}{}x2.{} #0, #1, #2;", is_f8(to) ? "satfinite." : "",
                       type_suffix(to), type_suffix(from));
  return a;
}

Asm unpack_f8_pair(DType from) {
  Asm a = pure(Reg::b32, {Reg::b16});
  a.text = fmt::format("cvt.rn.f16x2.{}x2 #0, #1;", type_suffix(from));
  return a;
}

}  // namespace tegula::codegen::ptx
