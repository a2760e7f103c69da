// Control flow, roles, and the checks that a program contains.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/analysis/facts.h"
#include "ir/eval/program.h"
#include "ir/loop.h"
#include "support/errors.h"
#include "tegula/error.h"

namespace tegula::ir::interp {
namespace {

/// Moves the values yielded by a region to `to`, all at once, because a carry may be yielded into
/// the position of another carry.
void assign_carries(Program& p, OpId yield, std::span<const Value> to) {
  auto& yielded = p.carry_scratch;
  yielded.resize(std::max(yielded.size(), to.size()));
  for (std::size_t i = 0; i < to.size(); ++i) yielded[i] = p.operand(yield, i);
  for (std::size_t i = 0; i < to.size(); ++i) std::swap(p.value(to[i]), yielded[i]);
}

void copy_values(Program& p, std::span<const Value> from, std::span<const Value> to) {
  for (std::size_t i = 0; i < to.size(); ++i) p.value(to[i]) = p.value(from[i]);
}

[[noreturn]] void stop_endless(Program& p, OpId id, std::string why, std::string hint) {
  const Kernel& k = p.kernel();
  throw ProgramError(
      {Diagnostic{std::string(code(FindingKind::EndlessLoop)),
                  fmt::format("kernel {} on cpu: {}: {} (program {}, {}, {})", k.info.name,
                              name(FindingKind::EndlessLoop), why, p.coordinates()[0],
                              p.coordinates()[1], p.coordinates()[2]),
                  p.op(id).loc,
                  {},
                  std::move(hint)}});
}

}  // namespace

void Program::stop_deadlocked(OpId id, std::string why) const {
  const auto program = coordinates();
  throw ProgramError({Diagnostic{
      std::string(code(FindingKind::Deadlock)),
      fmt::format("kernel {} on cpu: {}: {} (program {}, {}, {})", kernel().info.name,
                  name(FindingKind::Deadlock), why, program[0], program[1], program[2]),
      op(id).loc,
      {},
      "all programs that have begun wait or have ended: one must write before it waits"}});
}

namespace {

/// Counts the iterations of a loop and of the loops in it.
class LoopGuard {
 public:
  LoopGuard(Program& p, OpId id)
      : p_(p), id_(id), last_(p.iterations + p.evaluation().options.loop_limit) {}
  void count() {
    if (p_.iterations++ < last_) return;
    stop_endless(p_, id_,
                 fmt::format("{} iterations and no end", p_.evaluation().options.loop_limit),
                 "TEGULA_LOOP_LIMIT=N allows N iterations");
  }

 private:
  Program& p_;
  OpId id_;
  std::int64_t last_;
};

bool is_same(const TileValue& a, const TileValue& b) {
  return a.cells.size() == b.cells.size() && a.states == b.states && a.edges == b.edges &&
         std::memcmp(a.cells.data(), b.cells.data(), a.cells.size() * sizeof(Cell)) == 0;
}

/// Number of iterations after which a loop that makes changes yields to other programs, because it
/// may still wait for them.
constexpr int kIterationsOfATurn = 1000;

/// Detects a loop without progress: if an iteration that began with `before` and ended with `after`
/// changed neither memory nor a carry that the condition depends on, the condition is the same
/// until another program changes memory.
void require_progress(Program& p, OpId id, int iteration, std::span<const Value> before,
                      std::span<const Value> after) {
  if (!p.evaluation().is_sequential) return;
  const auto changes = [&](std::size_t i) {
    return !is_same(p.value(before[i]), p.value(after[i]));
  };
  std::size_t i = 0;
  while (i < before.size() && !changes(i)) ++i;
  // Checked only every kIterationsOfATurn iterations, because finding these carries takes longer
  // than an iteration.
  if (i < before.size() && (iteration % kIterationsOfATurn != 0 ||
                            std::ranges::any_of(condition_carries(p.kernel(), id), changes)))
    return;
  const auto& [region, address, op] = p.last_read;
  if (region != nullptr && p.wait_for_others()) return;
  if (region == nullptr)
    stop_endless(p, id, "nothing that its condition depends on changes",
                 "assign in the body the variables that the condition reads");
  const Memory& m = p.evaluation().memory;
  stop_endless(
      p, id,
      fmt::format("it waits for {}, which {} reads and no program changes",
                  m.describe(*region, m.address_of(*region, address)), op_at(p.kernel(), op)),
      "all programs that still run wait, and those that have ended write nothing more");
}

}  // namespace

void eval_For(Program& p, OpId id) {
  const OpData& d = p.op(id);
  const std::span<const Value> results(d.results.begin(), d.results.end());
  const auto low = p.integer(id, 0, "a loop bound"), high = p.integer(id, 1, "a loop bound"),
             step = p.integer(id, 2, "a loop step");
  const RegionId body = d.regions[0];
  const std::span<const Value> carries = body_carries(p.kernel(), id);
  copy_values(p, loop_inits(d), carries);
  const bool is_stuck = step && *step <= 0;
  if (is_stuck)
    p.report(FindingKind::EndlessLoop, id, d.loc,
             [&] { return fmt::format("a loop advances by {}", *step); });
  if (low && high && step && *low < *high && !is_stuck) {
    LoopGuard guard(p, id);
    const bool is_independent = p.attrs(id).s(AttrName::loop) == "independent";
    if (is_independent) p.independent.emplace_back(id);
    for (std::int64_t i = *low; i < *high; i += *step) {
      guard.count();
      if (is_independent) p.independent.back().next_step();
      p.value(p.kernel()[body].args[0]).set_scalar(Cell{.i = i});
      const OpId yield = p.run_region(body);
      assign_carries(p, yield, carries);
      if (*high - i <= *step) break;  // i + step could overflow
    }
    if (is_independent) p.independent.pop_back();
  }
  copy_values(p, carries, results);
}

void eval_While(Program& p, OpId id) {
  const OpData& d = p.op(id);
  const Kernel& k = p.kernel();
  const auto args_of = [&](std::size_t r) {
    const auto& args = k[d.regions[r]].args;
    return std::span<const Value>(args.begin(), args.end());
  };
  copy_values(p, {d.operands.begin(), d.operands.end()}, args_of(0));
  LoopGuard guard(p, id);
  for (int iteration = 1;; ++iteration) {
    guard.count();
    if (iteration % kIterationsOfATurn == 0) p.let_others_run();
    const std::uint64_t effects = p.effects;
    p.last_read = {};
    const OpId condition = p.run_region(d.regions[0]);
    const auto goes_on = p.integer(condition, 0, "a loop condition");
    if (!goes_on || *goes_on == 0) break;
    copy_values(p, args_of(0), args_of(1));
    const OpId yield = p.run_region(d.regions[1]);
    assign_carries(p, yield, args_of(0));
    if (p.effects == effects) require_progress(p, id, iteration, args_of(1), args_of(0));
  }
  copy_values(p, args_of(0), {d.results.begin(), d.results.end()});
}

void eval_If(Program& p, OpId id) {
  const OpData& d = p.op(id);
  const auto condition = p.integer(id, 0, "a branch condition");
  const OpId yield = p.run_region(d.regions[condition.value_or(0) != 0 ? 0 : 1]);
  for (std::size_t i = 0; i < d.results.size(); ++i) p.value(d.results[i]) = p.operand(yield, i);
}

// Roles cannot wait for one another in this form, so any order of them is possible. Their accesses
// to shared memory are checked by the role tags stored there.
void eval_Roles(Program& p, OpId id) {
  const std::uint32_t outer_tag = p.role_tag;
  ++p.role_runs;
  std::uint32_t role = 0;
  for (const RegionId region : p.op(id).regions) {
    p.role_tag = p.role_runs * 64 + ++role;
    AsyncCopies outer;
    std::swap(outer, p.asyncs);  // commit groups belong to the threads that issued the copies
    p.run_region(region);
    std::swap(outer, p.asyncs);
  }
  p.role_tag = outer_tag;
}

void eval_Yield(Program&, OpId) {}
void eval_Pin(Program&, OpId) {}
void eval_CtaBarrier(Program&, OpId) {}
void eval_OrderInit(Program&, OpId) {}
void eval_MulticastFlags(Program&, OpId) {}
void eval_OrderDrain(Program&, OpId) {}
void eval_OrderWait(Program&, OpId) {}
void eval_OrderArrive(Program&, OpId) {}
void eval_GridBarrier(Program& p, OpId id) {
  Evaluation& e = p.evaluation();
  GridBarrierState& barrier = e.grid_barrier;
  if (e.scheduler == nullptr) return;  // an eager run has one program
  const std::uint64_t generation = barrier.generation;
  const std::byte* token = &barrier.tokens[generation % barrier.tokens.size()];
  const std::int64_t programs = e.grid[0] * e.grid[1] * e.grid[2];
  p.release_at(token);
  ++p.effects;
  if (++barrier.arrived == programs) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (barrier.generation == generation)
    if (!p.wait_for_others())
      p.stop_deadlocked(id,
                        fmt::format("{} of {} programs have arrived at the grid_barrier, and the "
                                    "others do not",
                                    barrier.arrived, programs));
  p.acquire_at(token);
}

void eval_ReadRegister(Program& p, OpId id) {
  const bool is_timer = p.attrs(id).s(AttrName::kind) != "smid";
  p.result(id).set_scalar(Cell{.i = is_timer ? ++p.evaluation().registers_read : 0});
}

void eval_GridDependencyWait(Program&, OpId) {}
void eval_GridLaunchDependents(Program&, OpId) {}

namespace {

/// Returns the numbers that a comparison compared at an element: ": 50 < 10".
std::string compared(Program& p, Value condition, std::size_t element) {
  const OpId def = p.kernel()[condition].def;
  if (!def || p.op(def).opcode != Opcode::Cmp || p.operand_type(def, 0).is_pointer()) return "";
  const auto side = [&](std::size_t i) {
    const Value v = p.op(def).operands[i];
    return p.dense(v)[p.kernel().type(v).is_scalar() ? 0 : element];
  };
  return ": " + comparison(p.attrs(def).s(AttrName::pred), p.operand_type(def, 0).dtype(), side(0),
                           side(1));
}

}  // namespace

void eval_Assume(Program& p, OpId id) {
  const Value v = p.op(id).operands[0];
  const Cell* cells = p.dense(v);
  const std::uint8_t* states = p.states(v);
  const auto shape = p.kernel().type(v).shape();
  const auto count = static_cast<std::size_t>(p.kernel().type(v).count());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t state = states == nullptr ? 0 : states[i];
    if ((state & kAbsent) != 0) continue;
    if ((state & kPoison) != 0) {
      p.report_poison(id, "uses", "as a condition", p.value(v).origin);
    } else if (cells[i].i == 0 && !states_fact(p.kernel(), id)) {
      const FindingKind found =
          finding_of(p.attrs(id).s(AttrName::kind)).value_or(FindingKind::OutsideRead);
      p.report(found, id, p.op(id).loc, [&] {
        return std::string(p.attrs(id).s(AttrName::message)) +
               (shows_numbers(found) ? compared(p, v, i) : "");
      });
    } else if (cells[i].i == 0) {
      p.report(FindingKind::AssumeViolated, id, p.op(id).loc, [&] {
        return fmt::format("{}{}{}", p.attrs(id).s(AttrName::message, "assumption does not hold"),
                           shape.empty() ? "" : " at ",
                           shape.empty() ? "" : index_str(shape, static_cast<std::int64_t>(i))) +
               compared(p, v, i);
      });
    }
  }
}

/// Evaluates the op's model.
void eval_AsmElementwise(Program& p, OpId id) {
  const OpData& d = p.op(id);
  const auto count = static_cast<std::size_t>(
      p.attrs(id).i(AttrName::count, static_cast<std::int64_t>(d.operands.size())));
  if (count == d.operands.size()) fail(ErrorId::inline_ptx, d.loc, {});
  for (std::size_t i = 0; i < d.results.size(); ++i) p.result(id, i) = p.operand(id, count + i);
}

}  // namespace tegula::ir::interp
