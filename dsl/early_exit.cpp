// break_if and exit_program_if. The rest of the body is recorded as the `else` region of an `if` on
// the condition, which is closed at the end of the body. A loop with a break becomes a `while`.
#include "tegula/early_exit.h"

#include "dsl/eager.h"
#include "dsl/elementwise.h"
#include "dsl/tracer.h"
#include "ir/analysis/loop_end.h"

namespace tegula {
namespace {

void leave(const Arg& condition, std::string_view what, bool of_loop) {
  Tracer& t = Tracer::at(condition.loc(), what);
  const ir::Value c = dsl::truth(t, condition);
  if (t.kernel.type(c).is_tile())
    fail(ErrorId::condition_type, condition.loc(), {t.origin(c, "the condition")}, what,
         t.kernel.type(c).str(), "one number decides: any(condition) or all(condition)");
  t.leave_if(c, what, of_loop);
}

}  // namespace

void break_if(const Arg& condition) { leave(condition, "break_if", true); }
void exit_program_if(const Arg& condition) { leave(condition, "exit_program_if", false); }

namespace dsl {

void Tracer::leave_if(ir::Value condition, std::string_view what, bool of_loop) {
  auto inner = scopes_.rbegin();
  while (inner != scopes_.rend() && inner->kind == ScopeKind::Rest) ++inner;
  const bool is_body = inner != scopes_.rend() &&
                       (of_loop ? inner->kind == ScopeKind::Loop || inner->kind == ScopeKind::While
                                : inner->kind == ScopeKind::Grid);
  if (!is_body) {
    const std::string_view where = inner == scopes_.rend() ? "no body" : name(inner->kind);
    fail(of_loop ? ErrorId::break_outside : ErrorId::exit_outside, build.loc, {}, what, where);
  }
  if (runs()) {
    if (live->integer(condition, "a condition") == 0) return;
    // The rest of the body is skipped: it is recorded in a region that is never executed.
    OpenScope& s = push(ScopeKind::Rest);
    s.now = condition;
    build.at_end(kernel.add_region(kernel.make_op(Opcode::If, {}, {}, s.loc)));
    return;
  }
  ir::Value ends;
  if (inner->kind == ScopeKind::While) ends = build.flag(false);
  if (inner->kind == ScopeKind::Loop) ends = kernel[inner->op].operands[1];
  const ir::OpId op = build.make_if(condition, {});
  OpenScope& s = push(ScopeKind::Rest);
  s.op = op;
  s.ends = ends;
  build.at_end(kernel[op].regions[1]);
}

/// Closes the innermost `if` around the rest of a body. Its results are the variables that the rest
/// changed, and `goes_on`; if the rest is skipped, the latter is the value that ends the loop.
/// Variables of the body may already be destroyed.
ir::Value Tracer::close_rest(ir::Value goes_on) {
  OpenScope& s = scopes_.back();
  if (s.now) {
    restore(s.carries);
    pop();
    return {};
  }
  check_births(s);
  build.loc = s.loc;
  std::vector<ir::Value> yields[2];
  const ir::OpId op = s.op;
  for (Carry& c : s.carries) {
    if (!c.variable) continue;
    c.after = get(*c.variable);
    if (c.after == c.before) continue;
    if (!c.before || !c.after) {
      lose(*c.variable, s);
      continue;
    }
    if (!indices.is_same_type(c.before, c.after))
      fail(ErrorId::branch_type, s.loc,
           {origin(c.before, "if the body is left, it"), origin(c.after, "else it")},
           type_text(c.before), type_text(c.after),
           "cast or broadcast so that a variable keeps its type");
    yields[0].push_back(c.before);
    yields[1].push_back(c.after);
    const ir::Value result = kernel.add_result(op, kernel.type(c.before));
    keep_kind(c.before, result);
    set(*c.variable, result);
  }
  ir::Value following;
  if (goes_on) {
    yields[0].push_back(s.ends);
    yields[1].push_back(goes_on);
    following = kernel.add_result(op, kernel.type(goes_on));
  }
  for (std::size_t side : {std::size_t{0}, std::size_t{1}})
    yield(kernel[op].regions[side], yields[side]);
  pop();
  return following;
}

ir::Value Tracer::close_rests(ir::Value goes_on) {
  while (has_rest()) goes_on = close_rest(goes_on);
  return goes_on;
}

/// Closes a `steps` body with a break: if it is taken, the next index is the end of the range.
void Tracer::end_steps(OpenScope& loop) {
  if (loop.now) {
    close_rests({});
    loop.next = loop.end;
    return;
  }
  const std::uint64_t id = loop.id;
  const bool may_pass = ir::may_pass_indices(ir::Facts(kernel), kernel, loop.op);
  const ir::Value next = may_pass ? ir::next_index(build, loop.op, induction(id))
                                  : build.add(induction(id), kernel[loop.op].operands[2]);
  const ir::Value following = close_rests(next);
  OpenScope& s = top(id);
  if (!s.second) s.following = following;
}

/// Replaces result i of loop `from` by result first + i of loop `to`.
void Tracer::use_results(ir::OpId from, ir::OpId to, std::size_t first) {
  for (std::size_t i = 0; i < kernel[from].results.size(); ++i) {
    const ir::Value old = kernel[from].results[i], now = kernel[to].results[first + i];
    keep_kind(old, now);
    each_variable([&](Tile& t) {
      if (get(t) == old) set(t, now);
    });
    kernel.replace_all_uses(old, now);
  }
}

namespace {

/// Moves the ops of region `from` to the end of region `to`. Argument i of `from` is replaced by
/// argument first + i of region `taker`.
void move_region(ir::Kernel& k, ir::RegionId from, ir::RegionId to, ir::RegionId taker,
                 std::size_t first) {
  while (const ir::OpId op = k[from].first) {
    k.unlink(op);
    k.append(to, op);
  }
  for (std::size_t i = 0; i < k[from].args.size(); ++i)
    k.replace_all_uses(k[from].args[i], k[taker].args[first + i]);
}

}  // namespace

/// Converts a `for` over i to while (i < hi), which carries i; `following` is the next i.
void Tracer::make_while(ir::OpId loop, ir::Value following) {
  const std::vector<ir::Value> operands(kernel[loop].operands.begin(), kernel[loop].operands.end());
  std::vector<ir::Value> inits{operands[0]};
  inits.insert(inits.end(), operands.begin() + 3, operands.end());
  std::vector<ir::Type> types;
  for (ir::Value v : inits) types.push_back(kernel.type(v));
  ir::Builder b(kernel, loop);
  const ir::OpId op = b.create(Opcode::While, inits, types);
  const ir::RegionId test = kernel.add_region(op), body = kernel.add_region(op);
  for (ir::RegionId r : {test, body})
    for (ir::Type type : types) kernel.add_arg(r, type);
  indices.set(kernel[body].args[0], IndexTypes::Kind::Index);
  b.at_end(test);
  b.yield(std::vector{b.cmp("lt", kernel[test].args[0], operands[1])});
  move_region(kernel, kernel[loop].regions[0], body, body, 0);
  auto& nexts = kernel[kernel[body].last].operands;
  nexts.insert(nexts.begin(), following);
  use_results(loop, op, 1);
  kernel.erase(loop);
}

/// Adds a carried flag to a `while`. The loop ends if the flag is false; the original condition is
/// evaluated only if it is true.
void Tracer::stop_while(ir::OpId loop, ir::Value following) {
  const std::vector<ir::Value> operands(kernel[loop].operands.begin(), kernel[loop].operands.end());
  ir::Builder b(kernel, loop);
  std::vector<ir::Value> inits{b.flag(true)};
  inits.insert(inits.end(), operands.begin(), operands.end());
  std::vector<ir::Type> types;
  for (ir::Value v : inits) types.push_back(kernel.type(v));
  const ir::OpId op = b.create(Opcode::While, inits, types);
  const ir::RegionId test = kernel.add_region(op), body = kernel.add_region(op);
  for (ir::RegionId r : {test, body})
    for (ir::Type type : types) kernel.add_arg(r, type);
  b.at_end(test);
  const ir::Type flag = ir::Type::scalar(DType::i1);
  const ir::OpId asks = b.make_if(kernel[test].args[0], std::span(&flag, 1));
  const ir::RegionId asked = kernel[asks].regions[0], ended = kernel[asks].regions[1];
  move_region(kernel, kernel[loop].regions[0], asked, test, 1);
  b.at_end(ended);
  b.yield(std::vector{b.flag(false)});
  b.at_end(test);
  b.yield(std::vector{kernel[asks].results[0]});
  move_region(kernel, kernel[loop].regions[1], body, body, 1);
  auto& nexts = kernel[kernel[body].last].operands;
  nexts.insert(nexts.begin(), following);
  use_results(loop, op, 1);
  kernel.erase(loop);
}

}  // namespace dsl
}  // namespace tegula
