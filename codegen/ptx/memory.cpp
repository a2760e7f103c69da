// Loads, stores, atomics, asynchronous copies and matrix loads.
#include <fmt/format.h>

#include "codegen/ptx/cas_loop.h"
#include "codegen/ptx/instructions.h"

namespace tegula::codegen::ptx {
namespace {

using ir::AttrName;

/// Returns the descriptor of an L2 eviction priority, as `createpolicy.fractional` creates it for
/// fraction 1; "" for none.
std::string_view l2_policy(std::string_view evict) {
  if (evict == "first") return "0x12F0000000000000";
  if (evict == "last") return "0x14F0000000000000";
  if (evict == "normal") return "0x1000000000000000";
  return "";
}

std::string vector_suffix(const Access& a) {
  const std::string lanes = a.units() == 1 ? "" : fmt::format(".v{}", a.units());
  return fmt::format("{}.b{}", lanes, 8 * a.unit_bytes());
}

std::string registers(const Access& a, int first) {
  return a.units() == 1 ? fmt::format("#{}", first) : braces(first, a.units());
}

/// Returns the instruction with its L2 policy, if any, in a register as its last operand.
std::string with_policy(std::string_view policy, const std::string& instruction) {
  if (policy.empty()) return instruction + ";";
  return fmt::format("{{\n.reg .b64 policy;\nmov.b64 policy, {};\n{}, policy;\n}}", policy,
                     instruction);
}

std::string order(std::string_view sem, std::string_view scope) {
  return fmt::format(".{}.{}", sem.empty() ? "relaxed" : sem, scope.empty() ? "gpu" : scope);
}

/// Returns the modifiers that the attributes request, e.g. ".global.cs.L2::cache_hint".
std::string modifiers(const Access& a) {
  if (a.space == Space::Shared) return ".shared";
  if (a.space == Space::Cluster) return ".shared::cluster";
  const bool read_only = a.cache == "nc";
  std::string s = a.sem.empty() ? ".global" : order(a.sem, a.scope) + ".global";
  if (read_only)
    s += ".nc";
  else if (!a.cache.empty())
    s += fmt::format(".{}", a.cache);
  if (a.evict == "no_allocate") s += ".L1::no_allocate";
  if (!l2_policy(a.evict).empty()) s += ".L2::cache_hint";
  return s;
}

std::string predicate_prefix(bool predicated, int operand) {
  return predicated ? fmt::format("@#{} ", operand) : "";
}

Reg address_reg(Space s) { return s == Space::Global ? Reg::b64 : Reg::b32; }

/// Returns the operation and type of an atomic instruction; "" if the target has none. Not every
/// target adds bf16. Floats have no min and max: integer min and max would order NaN wrongly.
std::string atomic_operation(std::string_view kind, DType d, const ir::TargetRow& target) {
  const int bits = size_bits(d);
  if (is_float(d)) {
    if (kind == "xchg" && bits >= 32) return fmt::format("exch.b{}", bits);
    if (kind != "add" || bits < 16) return "";
    if (d == DType::bf16 && !target.has_bf16_arithmetic) return "";
    return fmt::format("add{}.{}", bits == 16 ? ".noftz" : "", type_suffix(d));
  }
  if (bits < 32) return "";
  if (kind == "xchg") return fmt::format("exch.b{}", bits);
  if (kind == "and" || kind == "or" || kind == "xor") return fmt::format("{}.b{}", kind, bits);
  if (kind == "add") return fmt::format("add.u{}", bits);  // wraps, so the sign does not matter
  if (kind == "min" || kind == "max") return fmt::format("{}.{}", kind, type_suffix(d));
  if (kind == "inc" && d == DType::u32) return "inc.u32";
  return "";
}

}  // namespace

int Access::unit_bytes() const {
  if (size_bits(dtype) == 64) return 8;
  return bytes() < 4 ? bytes() : 4;
}

Reg Access::unit() const {
  return unit_bytes() == 8 ? Reg::b64 : unit_bytes() == 4 ? Reg::b32 : Reg::b16;
}

Access access_of(const ir::AttrList& attrs, Space space, ir::Elem e, bool predicated) {
  return {space,
          e.pointer          ? DType::u64
          : is_bool(e.dtype) ? DType::u8
                             : e.dtype,
          static_cast<int>(attrs.i(AttrName::width, 1)),
          predicated,
          attrs.s(AttrName::cache),
          attrs.s(AttrName::evict),
          attrs.s(AttrName::sem),
          attrs.s(AttrName::scope),
          attrs.s(AttrName::kind) == "add"};
}

Asm load(const Access& a) {
  Asm out;
  out.memory = true;
  const int value = out.add(a.unit(), a.predicated ? Role::InOut : Role::Out, a.units());
  const int address = out.add(address_reg(a.space), Role::In);
  const int predicate = a.predicated ? out.add(Reg::pred, Role::In) : 0;
  out.text =
      with_policy(l2_policy(a.evict),
                  fmt::format("{}ld{}{} {}, [#{}]", predicate_prefix(a.predicated, predicate),
                              modifiers(a), vector_suffix(a), registers(a, value), address));
  return out;
}

Asm store(const Access& a) {
  Asm out;
  out.memory = true;
  const int address = out.add(address_reg(a.space), Role::In);
  const int value = out.add(a.unit(), Role::In, a.units());
  const int predicate = a.predicated ? out.add(Reg::pred, Role::In) : 0;
  const std::string operation = a.adds
                                    ? fmt::format("red{}.add.u{}", modifiers(a), size_bits(a.dtype))
                                    : fmt::format("st{}{}", modifiers(a), vector_suffix(a));
  out.text = with_policy(l2_policy(a.evict),
                         fmt::format("{}{} [#{}], {}", predicate_prefix(a.predicated, predicate),
                                     operation, address, registers(a, value)));
  return out;
}

Asm atomic(const ir::AttrList& attrs, DType d, bool predicated, bool result_used,
           const ir::TargetRow& target) {
  const std::string_view kind = attrs.s(AttrName::kind), sem = attrs.s(AttrName::sem),
                         scope = attrs.s(AttrName::scope);
  const Reg reg = reg_of({d, false});
  const std::string operation = atomic_operation(kind, d, target);
  // `red` supports neither acquire nor exchange.
  const bool need_result =
      result_used ||
      (!operation.empty() && (kind == "xchg" || sem == "acquire" || sem == "acq_rel"));
  Asm out;
  out.memory = true;
  const auto named = [](int operand) { return operand < 0 ? "" : fmt::format("#{}", operand); };
  const std::string result = named(need_result ? out.add(reg, Role::Out) : -1);
  const int run = need_result ? 1 : static_cast<int>(attrs.i(AttrName::width, 1));
  const std::string address = named(out.add(Reg::b64, Role::In));
  const int first = out.add(reg, Role::In, run);
  const std::string value = run == 1 ? named(first) : braces(first, run);
  const int predicate = predicated ? out.add(Reg::pred, Role::In) : -1;
  if (operation.empty()) {
    out.text = cas_loop(kind, d, sem, scope, {result, address, value, named(predicate)});
    return out;
  }
  // add.v4.f32
  std::string of_run = operation;
  if (run > 1) of_run.insert(operation.rfind('.'), fmt::format(".v{}", run));
  out.text = fmt::format("{}{}{}.global.{} {}[{}], {};", predicate_prefix(predicated, predicate),
                         need_result ? "atom" : "red", order(sem, scope), of_run,
                         need_result ? result + ", " : "", address, value);
  return out;
}

Asm compare_and_swap(const ir::AttrList& attrs, DType d, bool predicated) {
  const Reg reg = reg_of({d, false});
  Asm out;
  out.memory = true;
  out.add(reg, Role::Out);
  out.add(Reg::b64, Role::In);
  out.add(reg, Role::In, 2);
  if (predicated) out.add(Reg::pred, Role::In);
  out.text =
      fmt::format("{}atom{}.global.cas.b{} #0, [#1], #2, #3;", predicate_prefix(predicated, 4),
                  order(attrs.s(AttrName::sem), attrs.s(AttrName::scope)), size_bits(d));
  return out;
}

Asm cp_async(int bytes, std::string_view cache, bool sized) {
  Asm out = effect("", {Reg::b32, Reg::b64});
  if (sized) out.add(Reg::b32, Role::In);
  // .cg exists for 16 bytes only.
  const std::string_view operation = bytes == 16 && cache != "ca" ? "cg" : "ca";
  out.text = fmt::format("cp.async.{}.shared.global [#0], [#1], {}{};", operation, bytes,
                         sized ? ", #2" : "");
  return out;
}

Asm ldmatrix(int num, bool trans) {
  Asm out;
  out.memory = out.convergent = true;
  out.add(Reg::b32, Role::Out, num);
  const int address = out.add(Reg::b32, Role::In);
  out.text = fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [#{}];", num,
                         trans ? ".trans" : "", braces(0, num), address);
  return out;
}

Asm stmatrix(int num, bool trans) {
  Asm out;
  out.memory = out.convergent = true;
  out.add(Reg::b32, Role::In);
  out.add(Reg::b32, Role::In, num);
  out.text = fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [#0], {};", num,
                         trans ? ".trans" : "", braces(1, num));
  return out;
}

// TMA is here because it shares the L2 policies.

Asm tma_load(int rank, std::string_view evict, std::int64_t ctas) {
  Asm out = effect("", {Reg::b32, Reg::b64});
  const int corner = out.add(Reg::b32, Role::In, rank), bar = out.add(Reg::b32, Role::In);
  const std::string_view policy = l2_policy(evict);
  out.text = with_policy(
      policy,
      fmt::format(
          "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes{}{} "
          "[#0], [#1, {}], [#{}]{}",
          rank, ctas > 1 ? ".multicast::cluster" : "", policy.empty() ? "" : ".L2::cache_hint",
          braces(corner, rank), bar, ctas > 1 ? fmt::format(", {}", (1 << ctas) - 1) : ""));
  return out;
}

namespace {

/// Copies shared memory to a box of a tensor, as part of the thread's bulk group.
Asm tma_to_global(std::string_view mnemonic, std::string_view operation, int rank,
                  std::string_view evict) {
  Asm out = effect("", {Reg::b64});
  const int corner = out.add(Reg::b32, Role::In, rank), source = out.add(Reg::b32, Role::In);
  const std::string_view policy = l2_policy(evict);
  out.text = with_policy(
      policy, fmt::format("{}.{}d.global.shared::cta{}.bulk_group{} [#0, {}], [#{}]", mnemonic,
                          rank, operation, policy.empty() ? "" : ".L2::cache_hint",
                          braces(corner, rank), source));
  return out;
}

}  // namespace

Asm tma_store(int rank, std::string_view evict) {
  return tma_to_global("cp.async.bulk.tensor", "", rank, evict);
}

Asm tma_reduce(std::string_view kind, int rank, std::string_view evict) {
  return tma_to_global("cp.reduce.async.bulk.tensor", fmt::format(".{}", kind), rank, evict);
}

}  // namespace tegula::codegen::ptx
