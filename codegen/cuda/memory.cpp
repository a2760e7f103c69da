// Loads, stores, atomics, asynchronous copies and matrix loads. Each kind of access is one helper
// function around PTX with elements as parameters and results; calls read like `ld_global_bf16x8(x,
// p + i)`.
#include <fmt/format.h>

#include "codegen/cuda/bits.h"

namespace tegula::codegen::cuda {

std::string word_type(Emitter& e, int bits) { return e.use_type(fmt::format("u{}", bits)); }

std::string to_bits(Emitter& e, ir::Elem elem, const std::string& x) {
  if (elem.pointer) return fmt::format("({})({})", word_type(e, 64), x);
  if (elem.dtype == DType::f32) return fmt::format("__float_as_uint({})", x);
  if (elem.dtype == DType::f64)
    return fmt::format("{}(__double_as_longlong({}))", word_type(e, 64), x);
  const bool is_word = !is_bool(elem.dtype) && (is_float(elem.dtype) || !is_signed(elem.dtype));
  return is_word ? x : fmt::format("{}({})", word_type(e, element_bits(elem)), x);
}

std::string from_bits(Emitter& e, ir::Elem elem, const std::string& word) {
  if (elem.pointer) return fmt::format("({})({})", e.c_type(elem), word);
  if (elem.dtype == DType::f32) return fmt::format("__uint_as_float({})", word);
  if (elem.dtype == DType::f64) return fmt::format("__longlong_as_double({})", word);
  if (is_bool(elem.dtype)) return fmt::format("(({}) & 0xff) != 0", word);
  return fmt::format("{}({})", e.c_type(elem), word);
}

namespace {

using ptx::Access;
using ptx::Space;

/// A load or store with the properties that its helper function needs.
struct Port {
  Access access;
  ir::Elem elem;
  std::string address_type, suffix;  ///< "const float*", "f32x4_cg"

  int per_unit() const { return access.unit_bytes() * 8 / element_bits(elem); }
};

Port port_of(Emitter& e, OpId id, Space space, ir::Elem elem, bool predicated) {
  Port p{ptx::access_of(e.attrs(id), space, elem, predicated), elem, "int",
         elem.pointer ? "ptr" : std::string(name(elem.dtype))};
  if (space == Space::Global) p.address_type = e.c_type(e.type(e.operand(id, 0)).elem());
  if (p.access.width != 1) p.suffix += fmt::format("x{}", p.access.width);
  if (!p.access.cache.empty()) p.suffix += fmt::format("_{}", p.access.cache);
  if (!p.access.evict.empty()) p.suffix += fmt::format("_evict_{}", p.access.evict);
  if (!p.access.sem.empty()) p.suffix += fmt::format("_{}_{}", p.access.sem, p.access.scope);
  if (p.access.adds) p.suffix += "_add";
  if (predicated) p.suffix += "_if";
  return p;
}

std::string_view space_name(Space s) {
  return s == Space::Shared ? "shared" : s == Space::Cluster ? "cluster" : "global";
}

std::string parameter(const std::string& type, std::string_view name) {
  return fmt::format("{} {}", type, name);
}

/// Returns statements that set the words `w[u]` from elements.
std::string pack(Emitter& e, const Port& p, const std::string& source) {
  std::string s;
  const int bits = element_bits(p.elem);
  for (int u = 0; u < p.access.units(); ++u) {
    std::string word;
    for (int n = 0; n < p.per_unit(); ++n) {
      const std::string x =
          p.access.width == 1 ? source : fmt::format("{}[{}]", source, u * p.per_unit() + n);
      const std::string part = to_bits(e, p.elem, x);
      word += n == 0 ? part
                     : fmt::format(" | {}({}) << {}", word_type(e, 8 * p.access.unit_bytes()), part,
                                   n * bits);
    }
    s += fmt::format("  w[{}] = {};\n", u, word);
  }
  return s;
}

/// Returns statements that set the elements from the words `w[u]`, or that return the only element.
std::string unpack(Emitter& e, const Port& p) {
  if (p.access.width == 1) return fmt::format("  return {};\n", from_bits(e, p.elem, "w[0]"));
  std::string s;
  const int bits = element_bits(p.elem);
  for (int i = 0; i < p.access.width; ++i) {
    const int shift = i % p.per_unit() * bits;
    const std::string word = fmt::format("w[{}]", i / p.per_unit());
    s +=
        fmt::format("  x[{}] = {};\n", i,
                    from_bits(e, p.elem, shift == 0 ? word : fmt::format("{} >> {}", word, shift)));
  }
  return s;
}

std::string words(Emitter& e, const Port& p) {
  return fmt::format("  {} w[{}];\n",
                     word_type(e, p.access.unit_bytes() < 4 ? 16 : 8 * p.access.unit_bytes()),
                     p.access.units());
}

std::vector<std::string> word_names(const Port& p) {
  std::vector<std::string> names;
  for (int u = 0; u < p.access.units(); ++u) names.push_back(fmt::format("w[{}]", u));
  return names;
}

std::string load_function(Emitter& e, const Port& p) {
  std::vector<std::string> names = word_names(p);
  names.push_back("p");
  if (p.access.predicated) names.push_back("int(is_active)");
  const std::string type = e.c_type(p.elem);
  const bool one = p.access.width == 1;
  std::string parameters = parameter("const " + p.address_type, "p");
  if (p.access.space != Space::Global) parameters = "int p";
  if (!one) parameters = parameter(type + "*", "x, ") + parameters;
  if (p.access.predicated)
    parameters +=
        one ? ", bool is_active, " + parameter(type, "x") : std::string(", bool is_active");
  const std::string body =
      words(e, p) + (p.access.predicated ? pack(e, p, "x") : "") +
      fmt::format("  {}\n", wrapped(ptx::render_cuda(ptx::load(p.access), names))) + unpack(e, p);
  return e.function(fmt::format("ld_{}_{}", space_name(p.access.space), p.suffix),
                    fmt::format("{} NAME({})", one ? type : "void", parameters), body);
}

std::string store_function(Emitter& e, const Port& p) {
  std::vector<std::string> names{"p"};
  for (const std::string& w : word_names(p)) names.push_back(w);
  if (p.access.predicated) names.push_back("int(is_active)");
  const std::string type = e.c_type(p.elem);
  std::string parameters =
      parameter(p.address_type, "p, ") +
      (p.access.width == 1 ? parameter(type, "x") : parameter("const " + type + "*", "x"));
  if (p.access.predicated) parameters += ", bool is_active";
  const std::string body =
      words(e, p) + pack(e, p, "x") +
      fmt::format("  {}\n", wrapped(ptx::render_cuda(ptx::store(p.access), names)));
  return e.function(fmt::format("st_{}_{}", space_name(p.access.space), p.suffix),
                    fmt::format("void NAME({})", parameters), body);
}

/// Returns the address of the first element of access `r`: "x" or, if there are many, "x + 8 * r".
std::string slice(const std::string& name, std::int64_t stride, bool is_many) {
  return is_many ? fmt::format("{} + {} * r", name, stride) : name;
}

/// Emits one statement, or one for each of `count` addresses.
void repeat(Emitter& e, std::int64_t count, bool is_many, const std::string& statement) {
  if (is_many)
    e.for_registers(count, statement);
  else
    e.line(statement);
}

void emit_load(Emitter& e, OpId id, Space space) {
  const Value v = e.result(id), address = e.operand(id, 0);
  const bool predicated = e.operand_count(id) > 1, filled = e.operand_count(id) > 2;
  const Port p = port_of(e, id, space, e.type(v).elem(), predicated);
  const std::string function = load_function(e, p);
  const bool many = e.is_array(address);
  const std::string index = many ? "r" : "0";
  std::string guard = predicated ? ", " + e.argument(e.operand(id, 1), index) : "";
  // Without a fill value, masked elements are poison: zero is a valid choice.
  const auto fill = [&](std::string_view element) {
    return filled ? e.argument(e.operand(id, 2), element) : e.float_literal(0, e.type(v).dtype()).s;
  };
  if (p.access.width == 1) {
    if (predicated) guard += ", " + fill(index);
    const std::string call = fmt::format("{}({}{})", function, e.argument(address, index), guard);
    if (!e.is_array(v)) {
      e.declare(v, call);
      return;
    }
    return repeat(e, e.count(address), many,
                  fmt::format("{}[{}] = {};", e.declare_array(v), index, call));
  }
  const std::string to = e.declare_array(v);
  if (predicated) e.for_registers(e.count(v), fmt::format("{}[r] = {};", to, fill("r")));
  repeat(e, e.count(address), many,
         fmt::format("{}({}, {}{});", function, slice(to, p.access.width, many),
                     e.argument(address, index), guard));
}

/// Returns the elements of `v` as an array; a scalar is repeated.
std::string array_of(Emitter& e, Value v, std::int64_t count) {
  if (e.is_array(v)) return e.array(v);
  const std::string name = e.names.fresh("repeated");
  e.line(fmt::format("{} {}[{}];", e.c_type(e.type(v)), name, count));
  e.for_registers(count, fmt::format("{}[r] = {};", name, e.text(v).s));
  return name;
}

void emit_store(Emitter& e, OpId id, Space space) {
  const Value address = e.operand(id, 0), value = e.operand(id, 1);
  const bool predicated = e.operand_count(id) > 2;
  const Port p = port_of(e, id, space, e.type(value).elem(), predicated);
  const std::string function = store_function(e, p);
  const bool many = e.is_array(address);
  const std::string index = many ? "r" : "0";
  const std::string guard = predicated ? ", " + e.argument(e.operand(id, 2), index) : "";
  const std::string x = p.access.width == 1 ? e.argument(value, index)
                                            : slice(array_of(e, value, p.access.width),
                                                    e.is_array(value) ? p.access.width : 0, many);
  repeat(e, e.count(address), many,
         fmt::format("{}({}, {}{});", function, e.argument(address, index), x, guard));
}

std::string matrix_name(std::string_view op, const ir::AttrList& attrs) {
  return fmt::format("{}_x{}{}", op, attrs.i(AttrName::num, 4),
                     attrs.i(AttrName::trans) != 0 ? "_trans" : "");
}

}  // namespace

void cuda_LdGlobal(Emitter& e, OpId id) { emit_load(e, id, Space::Global); }
void cuda_StGlobal(Emitter& e, OpId id) { emit_store(e, id, Space::Global); }
void cuda_LdShared(Emitter& e, OpId id) { emit_load(e, id, Space::Shared); }
void cuda_LdCluster(Emitter& e, OpId id) { emit_load(e, id, Space::Cluster); }
void cuda_StShared(Emitter& e, OpId id) { emit_store(e, id, Space::Shared); }

namespace {

/// Emits a call of an atomic operation's function for each address, with all operands. Stores the
/// old values if they are used.
void call_atomic(Emitter& e, OpId id, const std::string& function) {
  const Value v = e.result(id), address = e.operand(id, 0);
  const bool many = e.is_array(address);
  const std::string index = many ? "r" : "0";
  std::string call = function + "(" + e.argument(address, index);
  for (std::size_t i = 1; i < e.operand_count(id); ++i)
    call += ", " + e.argument(e.operand(id, i), index);
  call += ")";
  if (!e.uses.is_used(v))
    repeat(e, e.count(address), many, call + ";");
  else if (!e.is_array(v))
    e.declare(v, call);
  else
    repeat(e, e.count(address), many, fmt::format("{}[{}] = {};", e.declare_array(v), index, call));
}

/// Emits vector atomics: one instruction per run of `run` adjacent elements, at the address of its
/// first element.
void add_runs(Emitter& e, OpId id, const ptx::Asm& a, std::int64_t run) {
  const Value address = e.operand(id, 0), values = e.operand(id, 1);
  const ir::Elem elem = e.type(values).elem();
  const std::string type = e.c_type(elem);
  Parameters p{{type + "* p", "const " + type + "* x"}, {"p"}};
  for (std::int64_t i = 0; i < run; ++i) p.names.push_back(fmt::format("x[{}]", i));
  const bool predicated = e.operand_count(id) > 2, many = e.count(address) > run;
  if (predicated) p.add("bool", "is_active");
  const std::string function =
      e.ptx_effect(fmt::format("red_add_{}x{}{}", name(elem.dtype), run, predicated ? "_if" : ""),
                   p.declarations, a, p.names);
  const std::string first = many ? fmt::format("{} * r", run) : "0";
  const std::string guard = predicated ? ", " + e.argument(e.operand(id, 2), first) : "";
  repeat(e, e.count(address) / run, many,
         fmt::format("{}({}, {}{});", function, e.argument(address, first),
                     slice(array_of(e, values, e.count(address)), run, many), guard));
}

}  // namespace

void cuda_AtomGlobal(Emitter& e, OpId id) {
  const Value v = e.result(id);
  const ir::Elem elem = e.type(v).elem();
  const bool predicated = e.operand_count(id) > 2;
  const ptx::Asm a =
      ptx::atomic(e.attrs(id), elem.dtype, predicated, e.uses.is_used(v), *e.kernel.info.target);
  if (a.text.empty()) e.refuse(id, "no atomic operation of this kind for this type");
  const std::int64_t run = e.attrs(id).i(AttrName::width, 1);
  if (run > 1 && !e.uses.is_used(v)) return add_runs(e, id, a, run);
  const std::string type = e.c_type(elem);
  Parameters p;
  p.add(type + "*", "p");
  p.add(type, "x");
  if (predicated) p.add("bool", "is_active");
  const bool has_result = a.operands.front().role == ptx::Role::Out;
  const std::string wanted =
      fmt::format("{}_{}_{}{}", has_result ? "atom" : "red", e.attrs(id).s(AttrName::kind),
                  name(elem.dtype), predicated ? "_if" : "");
  call_atomic(e, id,
              has_result ? e.ptx_value(wanted, type, p.declarations, a)
                         : e.ptx_effect(wanted, p.declarations, a, p.names));
}

void cuda_CasGlobal(Emitter& e, OpId id) {
  const ir::Elem elem = e.type(e.result(id)).elem();
  const bool predicated = e.operand_count(id) > 3;
  const std::string type = e.c_type(elem);
  std::vector<std::string> parameters{type + "* p", type + " expected", type + " desired"};
  if (predicated) parameters.push_back("bool is_active");
  call_atomic(e, id,
              e.ptx_value(fmt::format("cas_{}{}", name(elem.dtype), predicated ? "_if" : ""), type,
                          parameters, ptx::compare_and_swap(e.attrs(id), elem.dtype, predicated)));
}

void cuda_CpAsync(Emitter& e, OpId id) {
  const Value to = e.operand(id, 0), from = e.operand(id, 1);
  const auto bytes = static_cast<int>(e.attrs(id).i(AttrName::bytes));
  const bool predicated = e.operand_count(id) > 2;
  const ptx::Asm a = ptx::cp_async(bytes, e.attrs(id).s(AttrName::cache), predicated);
  std::vector<std::string> parameters{"int to", "const void* from"}, names{"to", "from"};
  if (predicated) {
    parameters.push_back("bool is_active");
    names.push_back(fmt::format("is_active ? {} : 0", bytes));
  }
  const std::string function = e.ptx_effect(
      fmt::format("cp_async_{}{}", bytes, predicated ? "_or_zero" : ""), parameters, a, names);
  const bool many = e.is_array(to) || e.is_array(from);
  const std::string index = many ? "r" : "0";
  const std::string guard = predicated ? ", " + e.argument(e.operand(id, 2), index) : "";
  repeat(e, std::max(e.count(to), e.count(from)), many,
         fmt::format("{}({}, {}{});", function, e.argument(to, index), e.argument(from, index),
                     guard));
}

void cuda_LdMatrix(Emitter& e, OpId id) {
  const Value v = e.result(id), address = e.operand(id, 0);
  const auto num = static_cast<int>(e.attrs(id).i(AttrName::num, 4));
  std::vector<std::string> names;
  for (int i = 0; i < num; ++i) names.push_back(fmt::format("x[{}]", i));
  names.push_back("row");
  const std::string function =
      e.ptx_effect(matrix_name("ldmatrix", e.attrs(id)), {e.c_type(e.type(v)) + "* x", "int row"},
                   ptx::ldmatrix(num, e.attrs(id).i(AttrName::trans) != 0), names);
  const bool many = e.is_array(address);
  repeat(e, e.count(address), many,
         fmt::format("{}({}, {});", function, slice(e.declare_array(v), num, many),
                     e.argument(address, many ? "r" : "0")));
}

void cuda_StMatrix(Emitter& e, OpId id) {
  const Value address = e.operand(id, 0), value = e.operand(id, 1);
  const auto num = static_cast<int>(e.attrs(id).i(AttrName::num, 4));
  std::vector<std::string> names{"row"};
  for (int i = 0; i < num; ++i) names.push_back(fmt::format("x[{}]", i));
  const std::string function = e.ptx_effect(
      matrix_name("stmatrix", e.attrs(id)), {"int row", "const " + e.c_type(e.type(value)) + "* x"},
      ptx::stmatrix(num, e.attrs(id).i(AttrName::trans) != 0), names);
  const bool many = e.is_array(address);
  const std::string x = slice(array_of(e, value, num), num, many);
  repeat(e, e.count(address), many,
         fmt::format("{}({}, {});", function, e.argument(address, many ? "r" : "0"), x));
}

}  // namespace tegula::codegen::cuda
