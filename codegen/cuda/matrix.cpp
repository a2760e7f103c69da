// mma.sync and wgmma. Accumulators are arrays that the asm statements update in place ("+f"), so
// that ptxas sees one register chain per accumulator and inserts no moves.
#include <fmt/format.h>

#include "codegen/cuda/emitter.h"

namespace tegula::codegen::cuda {
namespace {

DType accumulator_type(ir::Type t) {
  if (t.is(ir::TypeKind::Pending)) t = t.inner();
  return is_float(t.dtype()) ? t.dtype() : DType::i32;
}

/// Returns true if 16-bit elements are converted to or from the packed words of a pending value.
bool changes_width(const Emitter& e, Value from, Value to) { return e.count(from) != e.count(to); }

std::string packed_array(Emitter& e, Value pending, Value elements) {
  const std::string words = e.declare_array(pending);
  if (!e.is_poison(elements))
    e.for_registers(e.count(pending),
                    fmt::format("{}[r] = {} | {}({}) << 16;", words, e.argument(elements, "2 * r"),
                                e.use_type("u32"), e.argument(elements, "2 * r + 1")));
  return words;
}

void unpack_array(Emitter& e, Value elements, const std::string& words) {
  const std::string type = e.c_type(e.type(elements)), name = e.declare_array(elements);
  e.for_registers(e.count(elements),
                  fmt::format("{}[r] = {}({}[r / 2] >> 16 * (r % 2));", name, type, words));
}

/// Appends the names of an array's elements: "d[0]", "d[1]", ...
void add_registers(std::vector<std::string>& names, const std::string& array, std::int64_t count,
                   std::int64_t first = 0) {
  for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}[{}]", array, first + i));
}

ptx::Reg register_of(Emitter& e, OpId id, Value v) {
  const ptx::Reg r = ptx::reg_of(e.type(v).elem());
  if (r != ptx::Reg::f32 && r != ptx::Reg::b32 && r != ptx::Reg::b64 && r != ptx::Reg::f64)
    e.refuse(id, fmt::format("cannot pass {} on: repack to i32 first", e.kernel.type(v).str()));
  return r;
}

/// Returns a function around PTX on whole values: it updates `changed` and only reads `kept`.
std::string through_function(Emitter& e, OpId id, std::string_view name, const ptx::Asm& a,
                             const std::vector<Value>& changed, const std::vector<Value>& kept) {
  std::vector<std::string> parameters, names;
  const auto add = [&](Value v, bool is_const) {
    const std::string x(1, static_cast<char>('a' + parameters.size()));
    const std::string type = (is_const ? "const " : "") + e.c_type(e.type(v));
    if (e.is_array(v)) {
      parameters.push_back(fmt::format("{} (&{})[{}]", type, x, e.count(v)));
      add_registers(names, x, e.count(v));
    } else {
      parameters.push_back(fmt::format("{}& {}", type, x));
      names.push_back(x);
    }
  };
  if (changed.size() + kept.size() > 20)
    e.refuse(id, "takes more values than the emitter has names for");
  for (Value v : changed) add(v, false);
  for (Value v : kept) add(v, true);
  return e.ptx_effect(name, parameters, a, names);
}

std::string call_with(Emitter& e, const std::string& function, const std::vector<Value>& values) {
  std::string s;
  for (Value v : values)
    s += (s.empty() ? "" : ", ") + (e.has_variable(v) || !e.is_array(v)
                                        ? e.text(v).s.substr(0, e.text(v).s.find('['))
                                        : e.array(v));
  return fmt::format("{}({});", function, s);
}

/// Emits the asm that `spell` returns for `changed` and `kept`. Each result stays in the registers
/// of its operand in `changed`, or is unpacked from them.
void emit_through(Emitter& e, OpId id, std::string_view name, const std::vector<Value>& changed,
                  const std::vector<Value>& results, const std::vector<Value>& kept,
                  ptx::Asm (*spell)(OpId, Emitter&, const std::vector<ptx::Reg>&,
                                    const std::vector<ptx::Reg>&)) {
  std::vector<ptx::Reg> through, held;
  std::vector<Value> arguments;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const bool unpacks = changes_width(e, changed[i], results[i]);
    if (!unpacks) e.take_over(results[i], changed[i], id);
    arguments.push_back(unpacks ? changed[i] : results[i]);
    through.insert(through.end(), static_cast<std::size_t>(e.count(changed[i])),
                   register_of(e, id, changed[i]));
  }
  for (Value v : kept)
    held.insert(held.end(), static_cast<std::size_t>(e.count(v)), register_of(e, id, v));
  const ptx::Asm a = spell(id, e, through, held);
  if (a.operands.empty()) return e.ptx_statement(a);
  const std::string function = through_function(e, id, name, a, changed, kept);
  arguments.insert(arguments.end(), kept.begin(), kept.end());
  e.line(call_with(e, function, arguments));
  for (std::size_t i = 0; i < changed.size(); ++i)
    if (changes_width(e, changed[i], results[i]))
      unpack_array(e, results[i], e.variable(changed[i]).name);
}

/// Returns a descriptor advanced by `bytes`. Only the low half changes, so 32-bit arithmetic
/// suffices and halves the work.
std::string advanced(Emitter& e, const std::string& descriptor, std::int64_t bytes) {
  if (bytes == 0) return descriptor;
  const std::string u32 = e.use_type("u32"), u64 = e.use_type("u64"), i64 = e.use_type("i64");
  const std::string f =
      e.function("desc_advance", fmt::format("{} NAME({} desc, {} chunks)", i64, i64, u32),
                 fmt::format("  return (desc >> 32 << 32) | {}({}(desc) + chunks);\n", u64, u32));
  return fmt::format("{}({}, {})", f, descriptor, ptx::smem_desc_step(bytes));
}

ptx::WgmmaForm form_of(Emitter& e, OpId id) {
  ptx::WgmmaForm form;
  const Value acc = e.operand(id, 0);
  form.accumulators = static_cast<int>(e.count(e.result(id)));
  form.accumulator = accumulator_type(e.kernel.type(acc));
  form.a_in_registers = e.is_array(e.operand(id, 1));
  form.steps = static_cast<int>(e.attrs(id).ints(AttrName::step_b).size());
  form.row_tiles = std::max(1, static_cast<int>(e.attrs(id).ints(AttrName::rows_a).size()));
  form.fresh = e.is_poison(acc);
  if (const auto c = e.constant(e.operand(id, 3))) form.scale_d = *c != 0;
  return form;
}

std::string wgmma_function(Emitter& e, OpId id, const ptx::WgmmaForm& form) {
  const ir::AttrList& attrs = e.attrs(id);
  const auto shape = attrs.ints(AttrName::shape), steps_b = attrs.ints(AttrName::step_b);
  const std::string i64 = e.use_type("i64");
  std::vector<std::string> parameters{
      fmt::format("{} (&d)[{}]", e.c_type(e.type(e.result(id))), form.accumulators)},
      names;
  add_registers(names, "d", form.accumulators);
  if (form.a_in_registers) {
    parameters.push_back(
        fmt::format("const {} (&a)[{}]", e.c_type(e.type(e.operand(id, 1))), 4 * form.steps));
    add_registers(names, "a", 4 * form.steps);
  } else {
    parameters.push_back(i64 + " a");
    for (std::int64_t bytes : ptx::steps_of_rows(attrs)) names.push_back(advanced(e, "a", bytes));
  }
  parameters.push_back(i64 + " b");
  for (std::int64_t bytes : steps_b) names.push_back(advanced(e, "b", bytes));
  if (!form.fresh && !form.scale_d) {
    parameters.push_back("bool scale_d");
    names.push_back("scale_d");
  }
  const std::string types =
      attrs.s(AttrName::a_type) == attrs.s(AttrName::b_type)
          ? std::string(attrs.s(AttrName::a_type))
          : fmt::format("{}_{}", attrs.s(AttrName::a_type), attrs.s(AttrName::b_type));
  const bool overwrites = form.fresh || form.scale_d == false;
  return e.ptx_effect(
      fmt::format("wgmma{}_m{}n{}k{}_{}{}", overwrites ? "_new" : "", shape[0] * form.row_tiles,
                  shape[1], shape[2] * form.steps, types, form.a_in_registers ? "_rs" : ""),
      parameters, ptx::wgmma(attrs, form), names);
}

}  // namespace

void cuda_Mma(Emitter& e, OpId id) {
  const auto tiles = e.attrs(id).ints(AttrName::tiles), shape = e.attrs(id).ints(AttrName::shape);
  const ptx::MmaRegisters n = ptx::mma_registers(e.attrs(id));
  const Value v = e.result(id);
  std::vector<std::string> names;
  add_registers(names, "d", n.c);
  add_registers(names, "a", n.a);
  add_registers(names, "b", n.b);
  add_registers(names, "d", n.c);
  const std::string function = e.ptx_effect(
      fmt::format("mma_m{}n{}k{}_{}", shape[0], shape[1], shape[2],
                  e.attrs(id).s(AttrName::a_type)),
      {e.c_type(e.type(v)) + "* d", "const " + e.c_type(e.type(e.operand(id, 0))) + "* a",
       "const " + e.c_type(e.type(e.operand(id, 1))) + "* b"},
      ptx::mma(e.attrs(id), accumulator_type(e.type(v))), names);
  const std::string a = e.array(e.operand(id, 0)), b = e.array(e.operand(id, 1));
  const std::string d = e.take_over(v, e.operand(id, 2), id);
  const auto loop = [&](std::string_view index, std::int64_t count) {
    e.line("#pragma unroll");
    e.open(fmt::format("for (int {0} = 0; {0} < {1}; {0}++) {{", index, count));
  };
  const std::string k = e.names.fresh("mk"), m = e.names.fresh("mm"), col = e.names.fresh("mn");
  loop(k, tiles[2]);
  loop(m, tiles[0]);
  loop(col, tiles[1]);
  e.line(fmt::format(
      "{}({} + {} * ({} * {} + {}), {} + {} * ({} * {} + {}), {} + {} * ({} * {} + {}));", function,
      d, n.c, m, tiles[1], col, a, n.a, m, tiles[2], k, b, n.b, col, tiles[2], k));
  for (int i = 0; i < 3; ++i) e.close();
}

void cuda_SmemDesc(Emitter& e, OpId id) {
  const std::uint64_t bits = ptx::smem_desc_bits(e.attrs(id));
  const std::string u32 = e.use_type("u32"), u64 = e.use_type("u64"), i64 = e.use_type("i64");
  const std::string f =
      e.function(fmt::format("smem_desc_swizzle{}", e.attrs(id).i(AttrName::swizzle)),
                 fmt::format("{} NAME(int address)", i64),
                 fmt::format("  return {}({:#x}) << 32 | ({}(address) >> 4 | {:#x});\n", u64,
                             bits >> 32, u32, bits & 0xffffffff));
  e.declare(e.result(id), fmt::format("{}({})", f, e.argument(e.operand(id, 0))));
}

void cuda_WgmmaFence(Emitter& e, OpId id) {
  std::vector<Value> changed, results;
  for (std::size_t i = 0; i < e.operand_count(id); ++i) {
    // The fence need not order a poison accumulator, which has no value yet, nor 16-bit elements,
    // which are packed only at the wgmma.
    const ir::Type type = e.type(e.operand(id, i));
    if (e.is_poison(e.operand(id, i)) || size_bits(type.dtype()) < 32) {
      e.take_over(e.result(id, i), e.operand(id, i), id);
      continue;
    }
    changed.push_back(e.operand(id, i));
    results.push_back(e.result(id, i));
  }
  emit_through(e, id, "wgmma_fence", changed, results, {},
               [](OpId, Emitter&, const std::vector<ptx::Reg>& through,
                  const std::vector<ptx::Reg>&) { return ptx::wgmma_fence(through); });
}

void cuda_Wgmma(Emitter& e, OpId id) {
  const ptx::WgmmaForm form = form_of(e, id);
  const Value v = e.result(id);
  const std::string a =
      form.a_in_registers ? e.array(e.operand(id, 1)) : e.argument(e.operand(id, 1));
  const std::string b = e.argument(e.operand(id, 2));
  const std::string scale = form.fresh || form.scale_d ? "" : ", " + e.argument(e.operand(id, 3));
  const Value acc = e.operand(id, 0);
  const std::string d = form.fresh                 ? e.declare_array(v)
                        : changes_width(e, acc, v) ? packed_array(e, v, acc)
                                                   : e.take_over(v, acc, id);
  e.line(fmt::format("{}({}, {}, {}{});", wgmma_function(e, id, form), d, a, b, scale));
}

void cuda_WgmmaWait(Emitter& e, OpId id) {
  const ir::OpData& d = e.op(id);
  const auto results = static_cast<std::ptrdiff_t>(d.results.size());
  emit_through(e, id, fmt::format("wgmma_wait_{}", d.attrs.i(AttrName::count)),
               {d.operands.begin(), d.operands.begin() + results},
               {d.results.begin(), d.results.end()},
               {d.operands.begin() + results, d.operands.end()},
               [](OpId op, Emitter& emitter, const std::vector<ptx::Reg>& through,
                  const std::vector<ptx::Reg>& kept) {
                 return ptx::wgmma_wait(emitter.attrs(op).i(AttrName::count), through, kept);
               });
}

}  // namespace tegula::codegen::cuda
