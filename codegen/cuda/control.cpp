// Structured control flow: loops with their carried variables, branches, roles.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/emitter.h"

namespace tegula::codegen::cuda {
namespace {

std::vector<Value> tail(const std::pmr::vector<Value>& v, std::size_t from = 0) {
  return {v.begin() + static_cast<std::ptrdiff_t>(from), v.end()};
}

/// Returns the operands of a region's terminator.
std::vector<Value> yielded(const Emitter& e, ir::RegionId region) {
  const OpId end = e.kernel.terminator(region);
  return end ? tail(e.op(end).operands) : std::vector<Value>();
}

/// Returns true if the loop contains a wgmma and must therefore test after its body. NVVM keeps the
/// shape of a loop that tests first; ptxas then treats the copies at its end as writes to the A
/// registers of a wgmma in flight and serializes all wgmmas (C7513). The LLVM emitter's `for` loops
/// always test at the end.
bool holds_wgmma(const ir::Kernel& k, ir::RegionId body) {
  return ir::any_op(k, body, [&](OpId op) { return k[op].opcode == ir::Opcode::Wgmma; });
}

/// Declares the variable in which a loop carries `arg` and initializes it.
void carry(Emitter& e, OpId loop, Value arg, Value init) {
  const bool is_mine = e.is_array(arg) && e.has_variable(init) &&
                       e.variable(init).count == e.count(arg) && e.uses.count_in(init, loop) == 1 &&
                       e.is_free_at(init, loop);
  if (is_mine) return e.share(arg, init);
  if (e.is_array(arg)) {
    const std::string name = e.declare_array(arg);
    if (!e.is_poison(init))
      e.for_registers(e.count(arg), fmt::format("{}[r] = {};", name, e.text(init, "r").s));
    return;
  }
  const std::string first = e.is_poison(init) ? "" : " = " + e.text(init).s;
  const Variable& made = e.variables(e.new_variable(arg, ""));
  e.line(fmt::format("{} {}{};", made.type, made.name, first));
}

/// Creates a variable for result `i` of an `if`, or reuses one that a branch yields unchanged and
/// that is not read afterwards.
void make_result(Emitter& e, OpId id, std::size_t i) {
  const Value result = e.result(id, i);
  for (ir::RegionId region : e.op(id).regions) {
    const Value v = yielded(e, region)[i];
    if (!e.is_array(result) || e.uses.is_inlined(v) || !e.has_variable(v) ||
        e.variable(v).count != e.count(result))
      continue;
    bool is_free = true;
    for (Value h : e.variable(v).holders) is_free = is_free && e.uses.dies_inside(h, id);
    for (std::size_t other = 0; other < i; ++other)
      is_free = is_free && e.variable_index(e.result(id, other)) != e.variable_index(v);
    if (is_free) return e.share(result, v);
  }
  if (e.is_array(result))
    e.declare_array(result);
  else
    e.declare(result);
}

}  // namespace

void cuda_Const(Emitter&, OpId) {}   // written where it is used
void cuda_Poison(Emitter&, OpId) {}  // left unset where it is used
void cuda_Yield(Emitter&, OpId) {}   // read by the owner

void cuda_For(Emitter& e, OpId id) {
  const ir::OpData& d = e.op(id);
  const ir::RegionId body = d.regions[0];
  const std::vector<Value> args = tail(e.kernel[body].args, 1), inits = tail(d.operands, 3);
  for (std::size_t i = 0; i < args.size(); ++i) carry(e, id, args[i], inits[i]);

  static constexpr const char* kNames[] = {"i", "j", "k", "l", "m"};
  const Value iv = e.kernel[body].args[0];
  const Variable& counter =
      e.variables(e.new_variable(iv, kNames[std::min<std::size_t>(e.loop_depth, 4)]));
  const auto step = e.constant(d.operands[2]);
  const std::string name = counter.name,
                    first = fmt::format("{} {} = {};", counter.type, name, e.text(d.operands[0]).s),
                    test = fmt::format("{} < {}", name, e.exact(d.operands[1]).within(Prec::Add)),
                    next = step == 1 ? name + "++"
                                     : fmt::format("{} += {}", name, e.text(d.operands[2]).s);
  const bool unrolls = d.attrs.i(AttrName::unroll) != 0;
  const bool tests_after_body = !unrolls && holds_wgmma(e.kernel, body);
  const bool may_be_empty = d.attrs.i(AttrName::has_trip) != 1;
  if (tests_after_body) {
    e.line(first);
    if (may_be_empty) e.open(fmt::format("if ({}) {{", test));
  }
  e.line(unrolls ? "#pragma unroll" : "#pragma unroll 1");
  e.open(tests_after_body ? "do {" : fmt::format("for ({} {}; {}) {{", first, test, next));
  ++e.loop_depth;
  e.emit_region(body);
  e.assign(args, yielded(e, body));
  --e.loop_depth;
  if (tests_after_body) {
    e.line(next + ";");
    e.next_branch(fmt::format("}} while ({});", test));
    e.deepen(-1);
  }
  if (!tests_after_body || may_be_empty) e.close();
  for (std::size_t i = 0; i < args.size(); ++i) e.share(d.results[i], args[i]);
}

void cuda_While(Emitter& e, OpId id) {
  const ir::OpData& d = e.op(id);
  const ir::RegionId test = d.regions[0], body = d.regions[1];
  const std::vector<Value> in_test = tail(e.kernel[test].args), in_body = tail(e.kernel[body].args);
  for (std::size_t i = 0; i < in_test.size(); ++i) {
    carry(e, id, in_test[i], d.operands[i]);
    e.share(in_body[i], in_test[i]);
  }
  e.comment_location();
  Text condition;
  e.deepen(1);
  const std::string before = e.captured([&] {
    e.emit_region(test);
    condition = e.text(yielded(e, test)[0]);
  });
  e.deepen(-1);
  e.line("#pragma unroll 1");
  if (before.empty()) {
    e.open(fmt::format("while ({}) {{", condition.s));
  } else {
    e.open("while (true) {");
    e.append(before);
    e.line(fmt::format("if (!{}) break;", condition.within(Prec::Primary)));
  }
  ++e.loop_depth;
  e.emit_region(body);
  e.assign(in_body, yielded(e, body));
  --e.loop_depth;
  e.close();
  for (std::size_t i = 0; i < in_test.size(); ++i) e.share(d.results[i], in_test[i]);
}

void cuda_If(Emitter& e, OpId id) {
  const ir::OpData& d = e.op(id);
  for (std::size_t i = 0; i < d.results.size(); ++i) make_result(e, id, i);
  const Text condition = e.text(d.operands[0]);
  e.comment_location();
  std::string branches[2];
  e.deepen(1);
  for (std::size_t side = 0; side < 2; ++side) {
    branches[side] = e.captured([&] {
      e.emit_region(d.regions[side]);
      if (!d.results.empty()) e.assign(tail(d.results), yielded(e, d.regions[side]));
    });
  }
  e.deepen(-1);
  if (branches[0].empty() && branches[1].empty()) return;
  if (branches[0].empty()) {
    e.open(fmt::format("if (!{}) {{", condition.within(Prec::Primary)));
    e.append(branches[1]);
    return e.close();
  }
  e.open(fmt::format("if ({}) {{", condition.s));
  e.append(branches[0]);
  if (!branches[1].empty()) {
    e.next_branch("} else {");
    e.append(branches[1]);
  }
  e.close();
}

void cuda_Roles(Emitter& e, OpId id) {
  const ir::OpData& d = e.op(id);
  const auto warps = d.attrs.ints(AttrName::warps);
  std::string_view role_names = d.attrs.s(AttrName::names);
  std::int64_t end = 0;
  for (std::size_t role = 0; role < d.regions.size(); ++role) {
    end += warps[role];
    const std::string_view name = role_names.substr(0, role_names.find(','));
    role_names.remove_prefix(std::min(role_names.size(), name.size() + 1));
    // The last role needs no test if it consists of all remaining warps.
    std::string head = role == 0 ? "" : "} else ";
    if (end * 32 != e.kernel.info.threads || role == 0)
      head += fmt::format("if ({} < {}) ", e.warp(), end);
    head += "{";
    if (!name.empty()) head += fmt::format("  // {}", name);
    if (role == 0)
      e.open(head);
    else
      e.next_branch(head);
    e.emit_region(d.regions[role]);
  }
  e.close();
}

void cuda_Pin(Emitter& e, OpId) {
  e.line(fmt::format("{}({});", e.ptx_effect("pin", {"bool never"}, ptx::pin(), {"never"}),
                     e.never()));
}

}  // namespace tegula::codegen::cuda
