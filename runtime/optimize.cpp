// The verb `optimize`: runs the passes, and repeats them with a smaller plan if a kernel does not
// fit in shared memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>

#include "ir/opt_command.h"
#include "ir/schedule/carried_out.h"
#include "ir/schedule/judge.h"
#include "ir/schedule/text.h"
#include "ir/schedule/to_plan.h"
#include "ir/text.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "support/errors.h"
#include "support/text.h"

namespace tegula::runtime {
namespace {

bool is_asked(const Compilation& k, const CompileRequest& request) {
  return request.plan || !k.planned.is_empty();
}

ir::PassContext context_of(const Compilation& k, const CompileRequest& request,
                           const std::optional<ir::Plan>& plan) {
  ir::PassContext context;
  context.plan = plan;
  context.planned = k.planned;
  context.keep_checks = request.device.kind == DeviceKind::sim;
  return context;
}

/// Writes the traced kernel to a file and returns its name; "" if it cannot be written.
std::string keep_traced(const Compilation& k) {
  std::string file = (std::filesystem::temp_directory_path() / "tegula-XXXXXX.tir").string();
  const int descriptor = ::mkostemps(file.data(), 4, O_CLOEXEC);
  if (descriptor < 0) return {};
  const std::string text = ir::print(k.tile);
  const bool whole =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(descriptor);
  return whole ? file : std::string();
}

/// Returns the command that runs these passes on the traced kernel again; it begins with `command`.
std::string replay(const Compilation& k, const std::string& command,
                   std::span<const ir::Pass> passes) {
  const std::string file = keep_traced(k);
  if (file.empty()) return {};
  std::vector<std::string_view> names, all;
  for (const ir::Pass& pass : passes) names.push_back(pass.name);
  for (const ir::Pass& pass : optimize_passes()) all.push_back(pass.name);
  const std::string which = names == all ? std::string("--emit optimize")
                                         : fmt::format("--passes={}", fmt::join(names, ","));
  return fmt::format("{} --target {} --backend {} {} -- {}", command, k.target.name(),
                     name(k.backend), which, file);
}

void run_passes(Compilation& k, ir::PassContext& context, std::span<const ir::Pass> passes) {
  k.name = k.tile.info.name;
  k.simt = ir::clone(k.tile);
  k.simt.info.target = k.target;
  ir::PipelineOptions options;
#ifdef NDEBUG
  options.verify = false;
#endif
  const std::string command = ir::opt_command(context);  // with the current plan
  try {
    k.passes = ir::run_pipeline(k.simt, passes, context, options);
  } catch (const InternalError& e) {
    throw InternalError(e.message(), replay(k, command, passes));
  }
}

int fewest_stages(const ir::Plan& plan) { return plan.wgmma ? 2 : 1; }

/// Returns the next plan to try with less shared memory. Scratch memory cannot overlap rings that
/// are never empty; shorter rings leave more space for it.
std::optional<ir::Plan> plans_with_less_smem(ir::Plan plan) {
  if (plan.tma_store) {
    plan.tma_store = false;
    return plan;
  }
  if (plan.tma_aux_loads) {
    plan.tma_aux_loads = false;
    return plan;
  }
  if (plan.persistent && !plan.pingpong) {  // ping-pong would become another plan altogether
    plan.persistent = plan.dynamic_scheduler = plan.multicast = false;
    plan.disable_epilogue_overlap();
    plan.stage_stores = true;
    return plan;
  }
  if (plan.stages <= fewest_stages(plan)) return std::nullopt;
  --plan.stages;
  return plan;
}

// ---- requested plans

/// Returns the source of the request and its text.
std::string requested_plan(const CompileRequest& request) {
  if (request.plan) return request.plan->str();
  const std::string ours = fmt::format("with_plan(\"{}\")", request.planned.str()),
                    environment = fmt::format("TEGULA_PLAN=\"{}\"", env().plan);
  if (request.planned.is_empty()) return environment;
  return env().plan.empty() ? ours : ours + " under " + environment;
}

/// Returns the author's line, or that of the first dot.
Loc place_of(const Compilation& k, const CompileRequest& request) {
  Loc at = request.planned.at;
  ir::walk(k.tile, k.tile.body(), [&](ir::OpId op) {
    if (!at.known() && k.tile[op].opcode == ir::Opcode::Dot) at = k.tile[op].loc;
  });
  return at;
}

/// Compiles with this context and returns true if the result fits.
bool fits_with(Compilation& k, ir::PassContext context) {
  try {
    run_passes(k, context, optimize_passes());
  } catch (const CompileError&) {
    return false;
  }
  return fits(k);
}

/// Throws because the requested plan takes `bytes` of shared memory. Compiles with fewer stages, or
/// without the request, to report how much would fit.
[[noreturn]] void refuse_plan(Compilation& k, const CompileRequest& request,
                              const ir::SharedMemoryError& e) {
  Diagnostic said = diagnostic(ErrorId::plan_too_large, place_of(k, request), e.diagnostic().notes,
                               k.name, requested_plan(request), e.bytes(), k.target.name(),
                               k.target->shared_bytes_per_cta, "use smaller tiles");
  const auto suggest = [&](const std::string& what, std::string hint) {
    said.notes.push_back({{}, fmt::format("{} takes {} bytes", what, k.simt.info.smem_bytes)});
    said.hint = std::move(hint);
    throw CompileError(said);
  };
  const int fewest = fewest_stages(k.plan);
  for (int stages = k.plan.stages - 1; stages >= fewest; --stages) {
    ir::PassContext context = context_of(k, request, request.plan);
    context.planned.requested.stages = stages;
    if (context.plan) context.plan->stages = stages;
    if (fits_with(k, std::move(context)))
      suggest(fmt::format("with stages={} it", stages), fmt::format("request stages={}", stages));
  }
  if (fits_with(k, {})) suggest("the plan that is chosen without it", "leave it out");
  throw CompileError(said);
}

/// Checks that the requested Schedule is executed unchanged. If not, throws an error with the first
/// line that differs, and either the rules that reject it or what is executed instead.
void require_schedule(const Compilation& k, const ir::PlanRequest& planned) {
  const ir::Schedule& wanted = *planned.schedule;
  ir::Kernel tile = ir::clone(k.tile);
  tile.info.target = k.target;
  ir::PassContext context;
  context.plan = k.plan;
  context.planned = planned;
  const ir::CarriedOut done = ir::schedule_carried_out(tile, context);
  const std::string missing = ir::first_difference(wanted, done.schedule);
  if (missing.empty()) return;
  Diagnostic said = diagnostic(ErrorId::plan_unsupported, planned.at, {}, k.name, missing);
  const auto verdict = ir::judge(done.machine, ir::Graph(done.machine), wanted);
  for (const ir::Reason& reason : verdict.reasons) said.notes.push_back({{}, reason.str()});
  if (verdict.is_legal())
    said.notes.push_back({{}, fmt::format("possible: {}", trim(ir::print(done.schedule)))});
  throw CompileError(said);
}

/// Checks that the plan has the author's fields. Fields of TEGULA_PLAN are an experiment that
/// overrides them and are not checked, but a Schedule in TEGULA_PLAN is, like the author's.
void require_changes(const Compilation& k, const CompileRequest& request) {
  const ir::PlanRequest experiment = ir::parse_plan_request(env().plan);
  if (experiment.schedule) return require_schedule(k, experiment);
  if (!experiment.is_empty()) return;
  if (request.planned.schedule) return require_schedule(k, request.planned);
  const std::string missing = k.plan.first_mismatch(request.planned.requested);
  if (missing.empty()) return;
  Diagnostic said = diagnostic(ErrorId::plan_unsupported, request.planned.at, {}, k.name, missing);
  for (const ir::Remark& r : k.remarks)
    if (r.pass == "plan" && r.kind == ir::Remark::Kind::Missed)
      said.notes.push_back({{}, r.reason});
  said.notes.push_back({{}, "possible: " + k.plan.str()});
  throw CompileError(said);
}

/// Repeats the passes until the kernel fits: only the lowering knows how much scratch memory it
/// needs in addition to the rings.
void optimize_to_fit(Compilation& k, const CompileRequest& request) {
  optimize_by(k, request, request.plan);
  if (fits(k)) return;
  const ir::Plan first = k.plan;
  const ir::SharedMemoryError at_first(k.simt, k.simt.info.smem_bytes);
  while (!fits(k)) {
    const auto less = request.plan ? std::nullopt : plans_with_less_smem(k.plan);
    if (less && less->first_mismatch(request.planned.fields()).empty()) {
      optimize_by(k, request, less);
      continue;
    }
    if (!is_asked(k, request)) throw ir::SharedMemoryError(k.simt, k.simt.info.smem_bytes);
    k.plan = first;
    throw at_first;
  }
}

}  // namespace

bool fits(const Compilation& k) { return k.simt.info.smem_bytes <= k.target->shared_bytes_per_cta; }

void optimize_by(Compilation& k, const CompileRequest& request, const std::optional<ir::Plan>& plan,
                 std::span<const ir::Pass> passes) {
  ir::PassContext context = context_of(k, request, plan);
  try {
    run_passes(k, context, passes);
  } catch (const ir::SharedMemoryError&) {
    k.plan = *context.plan;  // the plan that did not fit
    throw;
  }
  k.plan = context.plan.value_or(ir::Plan{});
  k.remarks = std::move(context.remarks);
}

void optimize(Compilation& k, const CompileRequest& request) {
  try {
    optimize_to_fit(k, request);
    require_changes(k, request);
  } catch (const ir::SharedMemoryError& e) {
    if (!is_asked(k, request)) throw;
    refuse_plan(k, request, e);
  }
}

}  // namespace tegula::runtime
