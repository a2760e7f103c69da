// Elementwise ops that have a variable, and conversions.
#include <fmt/format.h>

#include "codegen/cuda/emitter.h"

namespace tegula::codegen::cuda {
namespace {

bool is_small_float(DType d) { return is_float(d) && size_bits(d) < 32; }
bool is_f8(DType d) { return is_float(d) && size_bits(d) == 8; }

/// Returns true for a cast that the hardware performs on two neighbors at once.
bool is_pair_cast(const Emitter& e, OpId id) {
  const ir::OpData& d = e.op(id);
  if (d.opcode != Opcode::Cast) return false;
  const DType from = e.type(d.operands[0]).dtype(), to = e.type(d.results[0]).dtype();
  const ir::CastMode mode = ir::cast_mode(d.attrs, from, to);
  return from == DType::f32 && is_small_float(to) && (!is_f8(to) || e.kernel.info.target->has_f8) &&
         e.count(d.results[0]) % 2 == 0 && !mode.to_zero && (is_f8(to) || !mode.saturate);
}

std::string pair_function(Emitter& e, DType to) {
  const std::string type = is_f8(to) ? "u16" : "u32";
  return e.ptx_value(fmt::format("pack_{}", name(to)), e.use_type(type),
                     {"float high", "float low"}, ptx::cast_pair(DType::f32, to));
}

std::string plus(std::string_view index, int n) {
  if (index.find_first_not_of("0123456789") == std::string_view::npos)
    return std::to_string(std::stoi(std::string(index)) + n);
  return n == 0 ? std::string(index) : fmt::format("{} + {}", index, n);
}

void emit_pair_cast(Emitter& e, OpId id) {
  const Value v = e.result(id), x = e.operand(id, 0);
  const DType to = e.type(v).dtype();
  const std::string out = e.declare_array(v), type = e.c_type(e.type(v));
  const std::string word =
      fmt::format("{}({}, {})", pair_function(e, to), e.argument(x, "r + 1"), e.argument(x, "r"));
  e.line("#pragma unroll");
  e.open(fmt::format("for (int r = 0; r < {}; r += 2) {{", e.count(v)));
  e.line(fmt::format("const {} pair = {};", e.use_type(is_f8(to) ? "u16" : "u32"), word));
  e.line(fmt::format("{0}[r] = {1}(pair);", out, type));
  e.line(fmt::format("{0}[r + 1] = {1}(pair >> {2});", out, type, size_bits(to)));
  e.close();
}

void emit_half_pairs(Emitter& e, OpId id) {
  const Value v = e.result(id);
  const ir::OpData& d = e.op(id);
  const std::string_view mnemonic = ir::info(d.opcode).mnemonic;
  const bool propagate = d.attrs.s(ir::AttrName::nan, "ignore") == "propagate";
  const std::string &word = e.use_type("u32"), &half = e.c_type(e.type(v));
  std::vector<std::string> parameters;
  std::string arguments;
  for (Value x : d.operands) {
    parameters.push_back(fmt::format("{} {}", word, static_cast<char>('a' + parameters.size())));
    if (!arguments.empty()) arguments += ", ";
    arguments += e.is_array(x) ? fmt::format("{0}({1}) | {0}({2}) << 16", word, e.argument(x, "r"),
                                             e.argument(x, "r + 1"))
                               : fmt::format("{}({}) * 0x10001u", word, e.argument(x));
  }
  const DType dtype = e.type(v).dtype();
  const std::string function =
      e.ptx_value(fmt::format("{}{}_{}x2", mnemonic, propagate ? "_nan" : "", name(dtype)), word,
                  parameters, ptx::half_op(mnemonic, dtype, true, propagate));
  const std::string out = e.declare_array(v);
  e.line("#pragma unroll");
  e.open(fmt::format("for (int r = 0; r < {}; r += 2) {{", e.count(v)));
  e.line(fmt::format("const {} pair = {}({});", word, function, arguments));
  e.line(fmt::format("{0}[r] = {1}(pair);", out, half));
  e.line(fmt::format("{0}[r + 1] = {1}(pair >> 16);", out, half));
  e.close();
}

/// Finds an operand whose live range ends at this op and of which each result register reads only
/// the register of the same index. Places the result in its array and returns it, or null.
const Variable* dying_operand(Emitter& e, OpId id) {
  const Value v = e.result(id);
  Emitter::Reads all;
  for (Value x : e.op(id).operands) {
    const Emitter::Reads r = e.reads(x);
    all.other_index.insert(r.other_index.begin(), r.other_index.end());
  }
  for (Value x : e.op(id).operands) {
    if (e.uses.is_inlined(x) || !e.has_variable(x)) continue;
    const Variable& place = e.variable(x);
    if (place.count != e.count(v) || place.type != e.c_type(e.type(v)) || !e.is_array(v)) continue;
    if (all.other_index.contains(e.variable_index(x)) || !e.is_free_at(x, id)) continue;
    e.share(v, x);
    return &e.variable(v);
  }
  return nullptr;
}

/// Returns true for `x = cond ? x : constant` on a whole array with a scalar condition, e.g. where
/// the accumulators of an empty loop are set to zero.
bool keeps_or_replaces(Emitter& e, OpId id, const Variable* place) {
  const ir::OpData& d = e.op(id);
  return d.opcode == Opcode::Select && place != nullptr && !e.is_array(d.operands[0]) &&
         e.constant_op(d.operands[2]) != nullptr && e.has_variable(d.operands[1]) &&
         e.variable(d.operands[1]).name == place->name &&
         (place->type == "float" || place->type == "int");
}

/// Emits a replacement of all registers under a branch that compilers do not convert to selects.
/// With a select per register, ptxas sees reads of accumulators that it still considers in flight,
/// and serializes all wgmmas (C7514).
void emit_replacement(Emitter& e, OpId id, const std::string& place) {
  const bool is_float = e.type(e.result(id)).dtype() == DType::f32;
  const std::string function =
      e.function(is_float ? "replace_float" : "replace_int",
                 fmt::format("void NAME({0}& x, {0} y)", is_float ? "float" : "int"),
                 fmt::format("  asm volatile(\"mov.b32 %0, %1;\" : \"={0}\"(x) : \"{0}\"(y));\n",
                             is_float ? "f" : "r"));
  e.open(fmt::format("if (!({})) {{", e.argument(e.operand(id, 0))));
  e.for_registers(e.count(e.result(id)), fmt::format("{}({}[r], {});", function, place,
                                                     e.argument(e.operand(id, 2), "r")));
  e.close();
}

}  // namespace

void emit_elementwise(Emitter& e, OpId id) {
  const Value v = e.result(id);
  const ElementFn fn = element_fn(e.op(id).opcode);
  if (!e.is_array(v)) {
    e.declare(v, fn({e, id, "0"}));
    return;
  }
  if (is_pair_cast(e, id)) return emit_pair_cast(e, id);
  if (is_pair_arithmetic(e.kernel, id)) return emit_half_pairs(e, id);
  const Text element = fn({e, id, "r"});
  const Variable* place = dying_operand(e, id);
  if (keeps_or_replaces(e, id, place)) return emit_replacement(e, id, place->name);
  const std::string name = place != nullptr ? place->name : e.declare_array(v);
  e.for_registers(e.count(v), fmt::format("{}[r] = {};", name, element.s));
}

Text Element::wide(std::size_t i) const {
  const Value v = e.operand(id, i);
  const DType d = e.type(v).dtype();
  if (!is_small_float(d)) return x(i);
  if (const ir::OpData* constant = e.constant_op(v)) {
    // Rounds the literal to the small type; an f32 literal represents the result exactly.
    const double value = visit_dtype(d, [&](auto tag) -> double {
      using T = typename decltype(tag)::type;
      if constexpr (requires(T t) { t.bits; })
        return static_cast<float>(T(constant->attrs.f(ir::AttrName::value)));
      else
        return 0;
    });
    return e.float_literal(value, DType::f32);
  }
  return convert(e, x(i), d, DType::f32);
}

Text convert(Emitter& e, const Text& x, DType from, DType to, ir::CastMode mode) {
  if (from == to) return x;
  const std::string type = e.c_type({to, false});
  const ptx::Asm a = ptx::cast(from, to, *e.kernel.info.target, mode);
  // Conversions that C++ defines in the same way are more readable as casts: integers wrap, and
  // conversions to f32 and f64 round to nearest even.
  const bool plain = !mode.to_zero && !mode.saturate && size_bits(to) >= 32 && is_float(to) &&
                     (!is_float(from) || size_bits(from) >= 32);
  if (is_bool(to)) {
    if (!is_small_float(from)) return infix(x, "!=", std::string("0"), Prec::Equality);
    return infix(convert(e, x, from, DType::f32), "!=", std::string("0.0f"), Prec::Equality);
  }
  if (is_bool(from) && is_small_float(to))
    return convert(e, fmt::format("float({})", x.s), DType::f32, to);
  if (from == DType::bf16 && to == DType::f32) {
    // Written in C++ instead of PTX, so that the compiler sees the packed word that x came from.
    const std::string f =
        e.function("bf16_to_f32", "float NAME(bf16 x)",
                   fmt::format("  return __uint_as_float({}(x) << 16);\n", e.use_type("u32")));
    return fmt::format("{}({})", f, x.s);
  }
  if (plain || a.text.empty() || is_bool(from)) return fmt::format("{}({})", type, x.s);
  const std::string suffix =
      fmt::format("{}{}", mode.to_zero ? "_rz" : "", mode.saturate ? "_sat" : "");
  const std::string call = e.ptx_value(fmt::format("{}_to_{}{}", name(from), name(to), suffix),
                                       type, {e.c_type({from, false}) + " x"}, a);
  return fmt::format("{}({})", call, x.s);
}

std::string packed_cast(Emitter& e, OpId id, std::string_view index) {
  const Value x = e.operand(id, 0);
  const DType from = e.type(x).dtype(), to = e.type(e.result(id)).dtype();
  const int per_word = 32 / size_bits(to);
  const auto element = [&](int n) { return plus(index, n); };
  if (is_pair_cast(e, id)) {
    const std::string pack = pair_function(e, to);
    const auto pair = [&](int n) {
      return fmt::format("{}({}, {})", pack, e.argument(x, element(n + 1)),
                         e.argument(x, element(n)));
    };
    return per_word == 2 ? pair(0)
                         : fmt::format("{} | {}({}) << 16", pair(0), e.use_type("u32"), pair(2));
  }
  const ir::CastMode mode = ir::cast_mode(e.attrs(id), from, to);
  std::string word;
  for (int n = 0; n < per_word; ++n) {
    const std::string part = convert(e, e.exact(x, element(n)), from, to, mode).s;
    word +=
        n == 0 ? part : fmt::format(" | {}({}) << {}", e.use_type("u32"), part, n * size_bits(to));
  }
  return word;
}

}  // namespace tegula::codegen::cuda
