#include "dsl/eager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "dsl/instance.h"
#include "dsl/tracer.h"
#include "ir/eval/program.h"
#include "runtime/reachable_memory.h"
#include "runtime/records.h"
#include "support/env.h"

namespace tegula::dsl {
namespace {

constexpr std::size_t kLarge = 256;  // release() frees unused values with more cells than this
constexpr std::int64_t kShown = 64;  // maximum number of elements that text() prints

std::string cell_text(ir::Cell c, DType d) {
  if (is_bool(d)) return c.i != 0 ? "true" : "false";
  return is_float(d) ? fmt::format("{}", c.f) : fmt::format("{}", c.i);
}

ir::EvalOptions options_of(const EagerProgram& runs) {
  ir::EvalOptions options;
  options.reachable = runs.reachable;
  options.loop_limit = env().loop_limit;
  return options;
}

}  // namespace

struct EagerInterpreter::State {
  State(const ir::Kernel& k, const EagerProgram& runs)
      : options(options_of(runs)),
        evaluation(k, runs.args, options, /*track_races=*/false),
        program(evaluation) {
    evaluation.grid = runs.grid;
    program.start(runs.number);
  }
  ir::EvalOptions options;
  ir::interp::Evaluation evaluation;
  ir::interp::Program program;
  ir::OpId last;                 ///< last executed op
  std::vector<ir::Value> large;  ///< results with more than kLarge cells that are not freed yet
};

EagerInterpreter::EagerInterpreter(Tracer& tracer, const EagerProgram& runs)
    : tracer_(tracer), state_(std::make_unique<State>(tracer.kernel, runs)) {}
EagerInterpreter::~EagerInterpreter() = default;

void EagerInterpreter::catch_up() {
  // The op that owns a fold is executed as a whole, after its function is recorded.
  if (tracer_.in_scope(ScopeKind::Fold)) return;
  const ir::Kernel& k = tracer_.kernel;
  State& s = *state_;
  for (;;) {
    const ir::OpId next = s.last ? k[s.last].next : k[k.body()].first;
    if (!next) return;
    s.last = next;  // set first, so that an op that throws is not executed again
    s.program.execute(next);
    for (ir::Value v : k[next].results)
      if (s.program.value(v).cells.size() > kLarge) s.large.push_back(v);
  }
}

std::int64_t EagerInterpreter::integer(ir::Value v, std::string_view used_as) {
  catch_up();
  const ir::interp::TileValue& t = state_->program.value(v);
  if (t.state(0) == 0 && t.edges.empty()) return t.cells[0].i;
  fail(ErrorId::eager_poison, tracer_.build.loc, {tracer_.origin(v, used_as)}, used_as);
}

void EagerInterpreter::release() {
  const std::vector<ir::Value> held = tracer_.held();
  std::erase_if(state_->large, [&](ir::Value v) {
    if (std::ranges::binary_search(held, v)) return false;
    state_->program.value(v) = {};
    return true;
  });
}

std::string EagerInterpreter::text(ir::Value v) {
  catch_up();
  const ir::Type type = tracer_.kernel.type(v);
  // Inside a fold no value has been computed yet.
  if (type.is_view() || v.index >= tracer_.kernel.value_count() ||
      tracer_.in_scope(ScopeKind::Fold))
    return type.str();
  ir::interp::Program& p = state_->program;
  if (p.value(v).cells.empty()) return type.str() + " (no longer kept)";
  const std::int64_t count = type.count();
  const std::uint8_t* states = p.states(v);
  const ir::Cell* cells = p.dense(v);
  std::vector<std::string> shown;
  for (std::int64_t i = 0; i < std::min(count, kShown); ++i) {
    const std::uint8_t state = states == nullptr ? 0 : states[i];
    shown.push_back((state & ir::interp::kAbsent) != 0   ? "absent"
                    : (state & ir::interp::kPoison) != 0 ? "poison"
                                                         : cell_text(cells[i], type.dtype()));
  }
  return fmt::format("{} {{{}{}}}", type.str(), fmt::join(shown, ", "),
                     count > kShown ? ", ..." : "");
}

void EagerInterpreter::finish() {
  catch_up();
  std::vector<Diagnostic> all;
  for (const auto& f : state_->evaluation.found)
    all.push_back(
        {std::string(code(f.finding.kind)),
         fmt::format("kernel {} run eagerly: {}", tracer_.kernel.info.name, f.finding.what()),
         f.finding.loc,
         {},
         ""});
  if (!all.empty()) throw ProgramError(std::move(all));
}

namespace {

/// Program numbers [first, end).
struct ChosenPrograms {
  std::int64_t first = 0, end = 0;
};

/// Returns the programs that TEGULA_EAGER_PROGRAM selects from `count`.
ChosenPrograms chosen_programs(const KernelInstance& k, std::int64_t count) {
  const std::string& text = env().eager_program;
  if (text == "all") return {0, count};
  std::int64_t number = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0 || number >= count)
    throw DeviceError(
        diagnostic(ErrorId::bad_environment, {}, {}, "TEGULA_EAGER_PROGRAM", text,
                   fmt::format("kernel {} has {} programs in this launch", k.name(), count),
                   fmt::format("give a number from 0 to {}, or all", count - 1)));
  return {number, number + 1};
}

/// Rejects kernels with a grid_barrier. Several programs run one after another, so the first would
/// pass the barrier before the others reach it.
void refuse_barriers(const ir::Kernel& kernel) {
  const bool meets = ir::any_op(kernel, kernel.body(), [&](ir::OpId op) {
    return kernel[op].opcode == ir::Opcode::GridBarrier;
  });
  if (meets)
    throw DeviceError(diagnostic(
        ErrorId::bad_environment, {}, {}, "TEGULA_EAGER_PROGRAM", "all",
        fmt::format("the programs of kernel {} run one after another, but they meet in a "
                    "grid_barrier",
                    kernel.info.name),
        "choose one of them"));
}

}  // namespace

void launch_eagerly(KernelInstance& k, std::span<const HostArg> args, Device device) {
  if (!device.on_host())
    throw DeviceError(
        diagnostic(ErrorId::bad_environment, {}, {}, "TEGULA_EAGER", 1,
                   fmt::format("kernel {} runs on the host, but its tensors are on {}", k.name(),
                               device.str()),
                   "set TEGULA_DEVICE=cpu"));
  const TraceResult traced = k.trace(k.signature(args));
  CallArgs call;
  make_call_key(k, args, device, call);
  check_overlap(k, call);
  const auto given =
      runtime::eval_args(traced.kernel, std::span(call.args.data(), traced.kernel.params().size()));
  const auto grid = ir::evaluate_launch(traced.kernel, given);
  const std::int64_t count = grid[0] * grid[1] * grid[2];
  if (count == 0) return;
  const ChosenPrograms chosen = chosen_programs(k, count);
  if (chosen.end - chosen.first > 1) refuse_barriers(traced.kernel);
  const std::vector<ir::HostMemory> reachable = runtime::reachable_memory(traced.kernel);
  for (std::int64_t number = chosen.first; number < chosen.end; ++number)
    k.run_eagerly(traced.signature, {given, reachable, grid, number});
  runtime::read_records();
}

}  // namespace tegula::dsl

namespace tegula {

std::string debug_string(const Tile& tile) {
  dsl::Tracer* t = dsl::Tracer::current();
  if (t == nullptr || !tile.defined()) return "no value";
  const ir::Value v = t->value(tile);
  return t->live != nullptr ? t->live->text(v) : t->kernel.type(v).str();
}

}  // namespace tegula
