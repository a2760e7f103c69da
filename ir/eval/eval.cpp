// Checks the arguments, orders the programs, runs them, and collects their faults.
#include "ir/eval/eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <thread>

#include "ir/clone_op.h"
#include "ir/eval/cluster.h"
#include "ir/eval/program.h"
#include "ir/eval/program_scheduler.h"
#include "ir/eval/unstored.h"
#include "ir/pipeline.h"
#include "support/errors.h"

namespace tegula::ir {

/// The pass in ir/passes/check_absence.cpp.
bool check_absence(Kernel&, PassContext&);
/// The pass in ir/passes/carry_presence.cpp.
bool carry_presence(Kernel&, PassContext&);
/// The pass in ir/passes/outside_reads.cpp.
bool outside_reads(Kernel&, PassContext&);

namespace {

using interp::Evaluation;
using interp::Program;

[[noreturn]] void refuse_argument(const Param& param, std::string_view why) {
  throw InternalError(fmt::format("argument '{}': {}", param.name, why));
}

void check_view_facts(const Param& param, const TensorArg& t, Type type) {
  const ViewFacts& facts = type.view_facts();
  const auto fact_or = [](const std::vector<std::int64_t>& list, std::size_t d,
                          std::int64_t otherwise) { return d < list.size() ? list[d] : otherwise; };
  for (std::size_t d = 0; d < t.dims.size(); ++d) {
    const std::int64_t extent = type.shape()[d], stride = fact_or(facts.strides, d, kDynamic);
    if (t.dims[d] < 0) refuse_argument(param, fmt::format("extent {} is {}", d, t.dims[d]));
    if (extent != kDynamic && extent != t.dims[d])
      refuse_argument(
          param, fmt::format("extent {} is {}, the kernel was made for {}", d, t.dims[d], extent));
    if (stride != kDynamic && stride != t.strides[d])
      refuse_argument(param, fmt::format("stride {} is {}, the kernel was made for {}", d,
                                         t.strides[d], stride));
    if (t.dims[d] % std::max<std::int64_t>(1, fact_or(facts.dim_div, d, 1)) != 0)
      refuse_argument(param, fmt::format("extent {} is {}, not a multiple of {}", d, t.dims[d],
                                         facts.dim_div[d]));
    if (t.strides[d] % std::max<std::int64_t>(1, fact_or(facts.stride_div, d, 1)) != 0)
      refuse_argument(param, fmt::format("stride {} is {}, not a multiple of {}", d, t.strides[d],
                                         facts.stride_div[d]));
  }
}

void check_argument(const Param& param, Type type, const EvalArg& arg) {
  if (param.attrs.has(AttrName::component))
    return;  // a component of a flattened argument accepts any kind of argument
  if (type.is_view()) {
    const auto* t = std::get_if<TensorArg>(&arg);
    if (t == nullptr) refuse_argument(param, "a tensor is expected");
    if (t->dtype != type.dtype())
      refuse_argument(param, fmt::format("elements are {}, {} is expected", name(t->dtype),
                                         name(type.dtype())));
    if (t->dims.size() != type.shape().size() || t->strides.size() != t->dims.size())
      refuse_argument(
          param, fmt::format("rank is {}, {} is expected", t->dims.size(), type.shape().size()));
    check_view_facts(param, *t, type);
  } else if (type.is_pointer() == std::holds_alternative<Cell>(arg)) {
    refuse_argument(param, type.is_pointer() ? "a pointer is expected" : "a scalar is expected");
  }
}

void check_arguments(const Kernel& kernel, std::span<const EvalArg> args) {
  const auto& params = kernel.params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (interp::arg_index(params[i], i) >= args.size())
      throw InternalError(fmt::format("kernel '{}' takes {} arguments, {} are given",
                                      kernel.info.name, params.size(), args.size()));
    check_argument(params[i], kernel.type(params[i].value), args[interp::arg_index(params[i], i)]);
  }
}

/// Returns the kernel's launch region with 64-bit integers. A launch recipe also computes in 64
/// bits, so that an extent of 2^32 is rejected and does not wrap to 0.
Kernel wide_launch(const Kernel& k) {
  Kernel wide(k.info.name, k.info.form);
  Builder b(wide, wide.launch());
  ValueMap map;
  const auto is_widened = [](Type t) {
    return t.is_scalar() && !t.is_pointer() && is_integer(t.dtype()) && !is_bool(t.dtype());
  };
  for (const Param& p : k.params()) {
    const Type type = k.type(p.value);
    const Value param = wide.add_param(p.name, type, p.attrs);
    map[p.value] = is_widened(type) ? b.cast(param, DType::i64) : param;
  }
  for (const OpId op : k.ops(k.launch())) {
    const OpData& d = k[op];
    std::vector<Value> operands;
    for (const Value v : d.operands) operands.push_back(mapped(map, v));
    std::vector<Type> types;
    for (const Value v : d.results)
      types.push_back(is_widened(k.type(v)) ? Type::scalar(DType::i64) : k.type(v));
    const OpId made = b.create(d.opcode, operands, types, d.attrs);
    for (std::size_t i = 0; i < types.size(); ++i) map[d.results[i]] = wide[made].results[i];
  }
  return wide;
}

std::array<std::int64_t, 3> launch_grid(const Kernel& kernel, std::span<const EvalArg> args) {
  std::array<std::int64_t, 3> grid{1, 1, 1};
  if (!kernel[kernel.launch()].first) return grid;
  const Kernel k = wide_launch(kernel);
  const EvalOptions options;
  Evaluation evaluation(k, args, options, /*track_races=*/false);
  Program host(evaluation);
  const OpId yield = host.run_region(k.launch());
  if (!yield) return grid;
  const std::size_t extents = std::min<std::size_t>(3, k[yield].operands.size());
  for (std::size_t i = 0; i < extents; ++i) {
    const interp::TileValue& v = host.operand(yield, i);
    if (v.state(0) != 0) fail(ErrorId::grid_by_zero, {}, {}, k.info.name);
    grid[i] = v.cells[0].i;
    if (grid[i] < 0 || grid[i] > kMaxPrograms[i])
      fail(ErrorId::grid_too_large, {}, {}, k.info.name, grid[i], i, kMaxPrograms[i]);
  }
  return grid;
}

bool has_atomics(const Kernel& kernel) {
  using enum Opcode;
  return any_op(kernel, kernel.body(), [&](OpId op) {
    return kernel[op].is(AtomicRmw, AtomicCas, AtomicLoad, AtomicStore, AtomicView, FetchTile,
                         ArriveAndTestLast, WaitUntil, GridBarrier) ||
           (kernel[op].opcode == StoreView && kernel[op].attrs.has(AttrName::kind));
  });
}

bool has(const Kernel& kernel, Opcode opcode) {
  return any_op(kernel, kernel.body(), [&](OpId op) { return kernel[op].opcode == opcode; });
}

/// Returns true if a program may wait for an effect of another one.
bool may_wait(const Kernel& kernel) {
  return has(kernel, Opcode::WaitUntil) || has(kernel, Opcode::GridBarrier) ||
         (has(kernel, Opcode::While) && has_atomics(kernel));
}

/// Returns the numbers of the programs, or clusters, in execution order.
std::vector<std::int64_t> program_order(std::int64_t count, std::optional<std::uint64_t> seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!seed) return order;
  std::uint64_t state = *seed;
  const auto next = [&] {  // splitmix64: the same order on every host
    std::uint64_t z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  };
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next() % i]);
  return order;
}

/// Runs one program, or all programs of a cluster.
void run(std::span<const std::unique_ptr<Program>> programs, std::int64_t number) {
  if (programs.size() == 1) return programs.front()->run(number);
  interp::run_cluster(programs, number * static_cast<std::int64_t>(programs.size()));
}

void run_programs(Evaluation& evaluation, std::span<const std::int64_t> order, int threads) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  const auto worker = [&] {
    try {
      std::vector<std::unique_ptr<Program>> programs;
      for (int rank = 0; rank < evaluation.kernel.info.cluster; ++rank)
        programs.push_back(std::make_unique<Program>(evaluation));
      for (std::size_t i; (i = next.fetch_add(1)) < order.size();) run(programs, order[i]);
    } catch (...) {
      next = order.size();
      const std::lock_guard lock(evaluation.mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(worker);
  worker();
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

/// Maximum number of programs of a kernel with grid_barrier: few, so that each has several tiles.
constexpr std::int64_t kMaxBarrierPrograms = 6;

/// Smaller launches run on one thread, so that their findings have a fixed order.
constexpr std::int64_t kProgramsWorthAThread = 8;

}  // namespace

std::optional<FindingKind> finding_of(std::string_view kind) {
  using enum FindingKind;
  constexpr std::pair<std::string_view, FindingKind> kKinds[] = {
      {"inside", OutsideRead},   {"elements", LostElements}, {"contraction", ContractionDiffers},
      {"page entry", PageEntry}, {"page room", PageRoom},    {"request", RequestLengths},
      {"work list", WorkList}};
  for (const auto& [name, found] : kKinds)
    if (name == kind) return found;
  return std::nullopt;
}

bool shows_numbers(FindingKind kind) {
  using enum FindingKind;
  return kind == PageEntry || kind == PageRoom || kind == RequestLengths;
}

std::string Finding::what() const {
  return fmt::format("{}: {} (program {}, {}, {}{})", name(kind), text, program[0], program[1],
                     program[2], count > 1 ? fmt::format("; {} times", count) : "");
}

std::string Finding::str() const { return fmt::format("{}: {}", interp::str(loc), what()); }

std::string EvalReport::str() const {
  std::string text;
  for (const Finding& f : findings) text += f.str() + "\n";
  return text;
}

bool takes_addresses(const Kernel& kernel) {
  return any_op(kernel, kernel.body(), [&](OpId op) {
    const OpData& d = kernel[op];
    return d.opcode == Opcode::Bitcast && kernel.type(d.results[0]).is_pointer();
  });
}

std::array<std::int64_t, 3> evaluate_launch(const Kernel& kernel, std::span<const EvalArg> args) {
  check_arguments(kernel, args);
  return launch_grid(kernel, args);
}

namespace {

EvalReport run_programs_of(const Kernel& kernel, std::span<const EvalArg> args,
                           const EvalOptions& options) {
  Evaluation evaluation(kernel, args, options, options.check);
  evaluation.grid = launch_grid(kernel, args);
  // All programs of a grid barrier are resident at once, and each processes several tiles.
  if (has(kernel, Opcode::GridBarrier))
    evaluation.grid[0] = std::min(evaluation.grid[0], kMaxBarrierPrograms);
  const std::int64_t count = evaluation.grid[0] * evaluation.grid[1] * evaluation.grid[2];
  int threads = options.threads > 0 ? options.threads : count >= kProgramsWorthAThread ? 2 : 1;
  if (has_atomics(kernel)) threads = 1;
  const int cluster = kernel.info.cluster;
  evaluation.is_sequential = threads == 1 && cluster == 1;
  if (evaluation.grid[0] % cluster != 0)
    throw InternalError(fmt::format("kernel '{}': {} programs do not divide into clusters of {}",
                                    kernel.info.name, evaluation.grid[0], cluster));
  const auto order = program_order(count / cluster, options.shuffle_seed);
  if (threads == 1 && may_wait(kernel))
    interp::ProgramScheduler(evaluation, order, run).run_all();
  else
    run_programs(evaluation, order, threads);
  if (options.check && options.find_unstored && count != 0) interp::find_unstored(evaluation);
  std::ranges::sort(evaluation.found, {},
                    [](const auto& f) { return std::pair(f.op, f.finding.kind); });
  EvalReport report;
  for (auto& f : evaluation.found) report.findings.push_back(std::move(f.finding));
  return report;
}

}  // namespace

EvalReport evaluate(const Kernel& kernel, std::span<const EvalArg> args,
                    const EvalOptions& options) {
  check_arguments(kernel, args);
  // The pass defines the semantics of loop carries. A kernel that it does not change runs
  // unmodified.
  if (kernel.info.form == Form::Tile) {
    Kernel meant = clone(kernel);
    PassContext context;
    context.keep_checks = options.check;
    const bool checks = check_absence(meant, context), keeps = carry_presence(meant, context),
               reads = outside_reads(meant, context);
    if (checks || keeps || reads) return run_programs_of(meant, args, options);
  }
  return run_programs_of(kernel, args, options);
}

}  // namespace tegula::ir
