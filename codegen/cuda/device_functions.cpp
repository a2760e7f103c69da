// C++ types, literals, and functions that wrap inline PTX.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "codegen/cuda/bits.h"

namespace tegula::codegen::cuda {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kTypeNames{
    "bool", "i8",     "i16",    "int", "i64",  "u8",    "u16",   "u32",
    "u64",  "f8e4m3", "f8e5m2", "f16", "bf16", "float", "double"};

/// Returns true for built-in C++ types, which need no declaration.
bool is_builtin(std::string_view name) {
  return name == "bool" || name == "int" || name == "float" || name == "double";
}

struct ResultRegister {
  const char* type;
  const char* value;
};
ResultRegister result_register(ptx::Reg r) {
  constexpr const char* kPlain = "result";
  if (r == ptx::Reg::pred) return {"int", "result != 0"};
  if (r == ptx::Reg::b16) return {"u16", kPlain};
  if (r == ptx::Reg::b64) return {"u64", kPlain};
  if (r == ptx::Reg::f32) return {"float", kPlain};
  if (r == ptx::Reg::f64) return {"double", kPlain};
  return {"u32", kPlain};
}

/// Returns the parameter as an inline-asm operand. Predicates become int and 8-bit values u16,
/// because inline asm has no register class for them.
std::string asm_operand(const std::string& name, ptx::Reg r) {
  if (r == ptx::Reg::pred) return fmt::format("int({})", name);
  if (r == ptx::Reg::b16) return fmt::format("u16({})", name);
  return name;
}

std::string joined(const std::vector<std::string>& items) {
  std::string s;
  for (const std::string& i : items) s += (s.empty() ? "" : ", ") + i;
  return s;
}

}  // namespace

std::string wrapped(const std::string& statement) {
  constexpr std::size_t kWidth = 92;
  std::string out;
  std::size_t column = 2;
  bool in_string = false;
  for (std::size_t i = 0; i < statement.size(); ++i) {
    const char c = statement[i];
    if (c == '"') in_string = !in_string;
    out += c;
    ++column;
    const bool ends_instruction =
        in_string && statement.compare(i - (i >= 3 ? 3 : 0), 4, "\\n\\t") == 0;
    const bool may_break = c == ' ';
    if ((!ends_instruction && !(may_break && column > kWidth)) || i + 2 >= statement.size())
      continue;
    if (in_string && statement[i + 1] == '"') continue;
    if (!in_string && c == ' ') out.pop_back();
    out += in_string ? "\"\n    \"" : "\n    ";
    column = 4;
  }
  return out;
}

// ---- types and literals

const std::string& Emitter::use_type(const std::string& name) {
  return *used_types_.insert(name).first;
}

std::string Emitter::c_type(ir::Elem e) {
  const std::string name(kTypeNames[static_cast<std::size_t>(e.dtype)]);
  if (!is_builtin(name)) use_type(name);
  return e.pointer ? name + "*" : name;
}

Text Emitter::float_literal(double value, DType d) {
  if (!is_float(d)) return std::string("0");
  if (size_bits(d) < 32) {
    const std::uint32_t bits = visit_dtype(d, [&](auto tag) -> std::uint32_t {
      using T = typename decltype(tag)::type;
      if constexpr (requires(T t) { t.bits; })
        return T(value).bits;
      else
        return 0;
    });
    return {fmt::format("{}({:#x})", c_type({d, false}), bits)};
  }
  const bool single = d == DType::f32;
  if (single) value = static_cast<float>(value);
  if (std::isnan(value)) {
    const std::string bits =
        single ? fmt::format("{:#x}", std::bit_cast<std::uint32_t>(static_cast<float>(value)))
               : fmt::format("{:#x}", std::bit_cast<std::uint64_t>(value));
    return fmt::format("{}({})", single ? "__int_as_float" : "__longlong_as_double", bits);
  }
  const Prec prec = std::signbit(value) ? Prec::Unary : Prec::Primary;
  if (std::isinf(value)) {
    const std::string infinity =
        function("infinity", single ? "float NAME()" : "double NAME()",
                 single ? "  return __int_as_float(0x7f800000);\n"
                        : "  return __longlong_as_double(0x7ff0000000000000);\n");
    return {(value < 0 ? "-" : "") + infinity + "()", prec};
  }
  std::string s =
      d == DType::f32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return {s + (d == DType::f32 ? "f" : ""), prec};
}

Text Emitter::literal(ir::Elem e, const ir::AttrList& attrs) {
  if (is_float(e.dtype) && !e.pointer) return float_literal(attrs.f(ir::AttrName::value), e.dtype);
  const std::int64_t v = attrs.i(ir::AttrName::value);
  if (e.pointer)
    return {fmt::format("({})({:#x}ull)", c_type(e), static_cast<std::uint64_t>(v)), Prec::Unary};
  if (is_bool(e.dtype)) return std::string((v & 1) != 0 ? "true" : "false");
  if (!is_signed(e.dtype)) {
    const int unused = 64 - size_bits(e.dtype);
    const std::uint64_t bits = static_cast<std::uint64_t>(v) << unused >> unused;
    return fmt::format("{}{}", bits,
                       size_bits(e.dtype) == 64   ? "ull"
                       : size_bits(e.dtype) == 32 ? "u"
                                                  : "");
  }
  const int unused = 64 - size_bits(e.dtype);
  const std::int64_t value =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(v) << unused) >> unused;
  const bool wide = size_bits(e.dtype) == 64;
  // The most negative integer cannot be written as one literal.
  const std::int64_t lowest = std::int64_t{-1} << (size_bits(e.dtype) - 1);
  if (value == lowest && size_bits(e.dtype) >= 32)
    return {fmt::format("(-{}{} - 1)", -(value + 1), wide ? "ll" : "")};
  return {fmt::format("{}{}", value, wide ? "ll" : ""), value < 0 ? Prec::Unary : Prec::Primary};
}

// ---- functions

std::string Emitter::function(std::string_view name, const std::string& signature,
                              const std::string& body) {
  std::string& known = function_names_[signature + "\n" + body];
  if (!known.empty()) return known;
  // Overloads for arrays of different lengths share a name; other functions get distinct names.
  auto& signatures = overloads_[std::string(name)];
  const bool overloads = !signatures.empty() && signature.find("(&") != std::string::npos &&
                         signatures.insert(signature).second;
  known = overloads ? std::string(name) : names.fresh(name);
  if (known == name) signatures.insert(signature);
  std::string head = signature;
  head.replace(head.find("NAME"), 4, known);
  functions_ += fmt::format("__device__ __forceinline__ {} {{\n{}}}\n\n", head, body);
  return known;
}

std::string Emitter::ptx_value(std::string_view name, const std::string& type,
                               const std::vector<std::string>& parameters, const ptx::Asm& a) {
  const ResultRegister result = result_register(a.operands.front().reg);
  if (result.type[0] == 'u') use_type(result.type);
  std::vector<std::string> names{"result"};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (a.operands[i + 1].reg == ptx::Reg::b16) use_type("u16");
    names.push_back(asm_operand(parameters[i].substr(parameters[i].find_last_of(" *") + 1),
                                a.operands[i + 1].reg));
  }
  const std::string body = fmt::format("  {} result;\n  {}\n  return {};\n", result.type,
                                       wrapped(ptx::render_cuda(a, names)), result.value);
  return function(name, fmt::format("{} NAME({})", type, joined(parameters)), body);
}

std::string Emitter::ptx_effect(std::string_view name, const std::vector<std::string>& parameters,
                                const ptx::Asm& a, const std::vector<std::string>& operands) {
  std::vector<std::string> converted;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool plain = a.operands[i].role != ptx::Role::In;
    if (a.operands[i].reg == ptx::Reg::b16) use_type("u16");
    converted.push_back(plain ? operands[i] : asm_operand(operands[i], a.operands[i].reg));
  }
  return function(name, fmt::format("void NAME({})", joined(parameters)),
                  fmt::format("  {}\n", wrapped(ptx::render_cuda(a, converted))));
}

void Emitter::ptx_statement(const ptx::Asm& a) { line(ptx::render_cuda(a, {})); }

}  // namespace tegula::codegen::cuda
