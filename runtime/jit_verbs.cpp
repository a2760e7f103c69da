// Implementation of the verbs; runtime/jit.cpp has their order.
#include "runtime/jit_verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <utility>

#include "codegen/check/simt_check.h"
#include "codegen/lower/lower_simt.h"
#include "ir/passes/schedule/live_tiles.h"
#include "runtime/context.h"
#include "runtime/make_recipe.h"
#include "runtime/nvrtc.h"
#include "runtime/warnings.h"
#include "support/env.h"
#include "support/warnings.h"
#include "tegula/error.h"

namespace tegula::ir {
bool canonicalize(Kernel&, PassContext&);
}

namespace tegula::runtime {

std::vector<ir::Pass> optimize_passes() {
  std::vector<ir::Pass> passes(ir::ir_passes().begin(), ir::ir_passes().end());
  passes.push_back({"lower_simt", ir::Form::Machine, ir::Form::Simt, &codegen::lower_simt,
                    "tiles become the registers of one thread"});
  passes.push_back({"merge_equal_registers", ir::Form::Simt, ir::Form::Simt,
                    &codegen::merge_equal_registers,
                    "computes registers that shifts and masks make equal only once"});
  passes.push_back({"canonicalize_simt", ir::Form::Simt, ir::Form::Simt, &ir::canonicalize,
                    "cleans up after lowering"});
  passes.push_back({"check_simt", ir::Form::Simt, ir::Form::Simt, &codegen::check_simt,
                    "checks that no fence, barrier or wait is missing"});
  return passes;
}

namespace {

/// Returns the architecture to assemble for. Code of an older target is assembled for the GPU's own
/// architecture if the target table has it.
std::string assembler_target(ir::Target target, Device device) {
  if (device.kind != DeviceKind::cuda) return std::string(target.name());
  return target.assembled_for(device_properties(device.index).compute());
}

}  // namespace

ir::PlanRequest planned_by(const CompileRequest& request) {
  ir::PlanRequest all = request.planned;
  all.add(ir::parse_plan_request(env().plan));
  return all;
}

void key(Compilation& c, const CompileRequest& request) {
  c.device = request.device;
  c.backend = request.backend.value_or(default_backend());
  c.key_text = request.key;
  c.planned = planned_by(request);
  c.target = request.target ? *request.target : default_target(request.device);
  c.assembler_target =
      request.target ? std::string(c.target.name()) : assembler_target(c.target, request.device);
}

void trace(Compilation& c, const CompileRequest& request) {
  c.tile = request.trace();
  c.name = c.tile.info.name;
}

void require_compilable(const Compilation& c, const CompileRequest& request) {
  const auto& checks = env().check;
  if (std::ranges::find(checks, "nocompile") != checks.end()) return;
  Compilation trial;
  key(trial, request);
  trial.tile = ir::clone(c.tile);
  optimize(trial, request);
}

void emit(Compilation& k, const CompileRequest& request) {
  const codegen::EmitOptions options{.lineinfo = request.lineinfo || env().lineinfo,
                                     .keep_source = !env().dump.empty()};
  k.emitted = k.backend == Backend::Llvm ? codegen::emit_llvm(k.simt, options)
                                         : codegen::emit_cuda(k.simt, options);
}

namespace {

/// A pass that may be dropped if registers run short, which only the assembler detects.
struct RegisterHungryPass {
  std::string_view pass, remark;
};
constexpr std::array kRegisterHungryPasses{
    RegisterHungryPass{
        "strength_reduce_divisions",
        "divisions by loop invariants remain: there are no registers for reciprocals"},
    RegisterHungryPass{
        "masks_to_row_bounds",
        "masks are not rewritten as row bounds: there are no registers for the bounds"}};

void assemble_once(Compilation& k, const CompileRequest& request) {
  const std::string target =
      k.assembler_target.empty() ? std::string(k.target.name()) : k.assembler_target;
  if (k.backend == Backend::Nvrtc) {
    NvrtcJob job{
        .source = k.emitted.source, .name = k.name + ".cu", .target = target, .options = {}};
    if (request.lineinfo || env().lineinfo) job.options.push_back("-lineinfo");
    NvrtcResult result = compile_cuda(job);
    k.cubin = std::move(result.cubin);
    k.report = std::move(result.report);
    return;
  }
  if (!find_ptxas()) return;  // the driver compiles the PTX when it is loaded
  AssembleJob job{.ptx = k.emitted.ptx, .target = target, .options = {}, .kernel = k.name};
  if (request.lineinfo || env().lineinfo) job.options.push_back("-lineinfo");
  Assembled result = runtime::assemble(job);
  k.cubin = std::move(result.cubin);
  k.report = std::move(result.report);
}

bool has_changed(const Compilation& k, std::string_view name) {
  return std::ranges::any_of(
      k.passes, [&](const ir::PassTiming& pass) { return pass.changed && pass.name == name; });
}

/// Returns each dropped pass alone, then all of them together; bit i denotes pass i.
std::vector<unsigned> pass_subsets_to_drop(const Compilation& k) {
  unsigned all = 0;
  std::vector<unsigned> sets;
  for (unsigned i = 0; i < kRegisterHungryPasses.size(); ++i) {
    if (!has_changed(k, kRegisterHungryPasses[i].pass)) continue;
    sets.push_back(1U << i);
    all |= 1U << i;
  }
  if (sets.size() > 1) sets.push_back(all);
  return sets;
}

/// Compiles again with these passes, under the same plan or, with `changes`, under the plan that is
/// chosen around them. Returns nothing if that is not possible: other tiles need shared memory for
/// layout conversions, or a plan has rules that the changes break.
std::optional<Compilation> recompile(const Compilation& k, const CompileRequest& request,
                                     std::span<const ir::Pass> passes,
                                     const PlanPatch* changes = nullptr) {
  Compilation other;
  other.device = k.device, other.backend = k.backend;
  other.target = k.target, other.assembler_target = k.assembler_target;
  other.key_text = k.key_text, other.planned = k.planned;
  other.tile = ir::clone(k.tile);
  if (changes) other.planned.requested = ir::merged(other.planned.requested, *changes);
  try {
    optimize_by(other, request, changes ? std::nullopt : std::optional(k.plan), passes);
    if (!fits(other)) return std::nullopt;
    emit(other, request);
    assemble_once(other, request);
  } catch (const CompileError&) {
    return std::nullopt;
  } catch (const DeviceError&) {  // the assembler's time limit
    return std::nullopt;
  }
  other.planned = k.planned;
  return other;
}

std::optional<Compilation> recompile_without(unsigned set, const Compilation& k,
                                             const CompileRequest& request) {
  std::vector<ir::Pass> passes = optimize_passes();
  std::vector<ir::Remark> remarks;
  for (unsigned i = 0; i < kRegisterHungryPasses.size(); ++i) {
    const auto& [name, remark] = kRegisterHungryPasses[i];
    if ((set >> i & 1U) == 0) continue;
    std::erase_if(passes, [&](const ir::Pass& pass) { return pass.name == name; });
    remarks.push_back({std::string(name),
                       {},
                       ir::Remark::Kind::Missed,
                       std::string(remark),
                       {{"with them", k.report.defects()}}});
  }
  std::optional<Compilation> other = recompile(k, request, passes);
  if (other) std::ranges::move(remarks, std::back_inserter(other->remarks));
  return other;
}

/// A kernel that spills, compiled with another number of warps, which does not.
struct OtherWarps {
  PlanPatch plan;
  Compilation compiled;
};

/// Tries the plan's number of warps without its limit of registers, then twice as many warps and so
/// on while fewer bytes spill, then half as many if a thread then has more registers. Numbers whose
/// live tiles exceed the registers are not tried.
std::optional<OtherWarps> other_warps_without_spills(const Compilation& k,
                                                     const CompileRequest& request) {
  const int given = k.plan.num_warps, registers = k.target->registers_at_entry(given);
  const bool is_limited = k.plan.min_ctas_per_sm > 1;
  std::optional<OtherWarps> found;
  int fewest = k.report.spilled_bytes();
  const auto is_worth_going_on = [&](int warps) {
    if (ir::live_tiles(k.tile, 32 * std::int64_t{warps}).registers >
        k.target->registers_at_entry(warps))
      return true;
    PlanPatch changes;
    if (warps != given) changes.num_warps = warps;
    if (is_limited) changes.min_ctas_per_sm = 1;
    std::optional<Compilation> other = recompile(k, request, optimize_passes(), &changes);
    if (!other || other->plan.wgmma != k.plan.wgmma) return true;
    const int spilled = other->report.spilled_bytes(), before = std::exchange(fewest, spilled);
    if (other->report.is_clean()) found.emplace(OtherWarps{changes, std::move(*other)});
    return spilled > 0 && spilled < before;
  };
  if (is_limited) is_worth_going_on(given);
  for (int warps = 2 * given; !found && warps <= ir::kMaxWarps && is_worth_going_on(warps);)
    warps *= 2;
  for (int warps = given / 2; !found && warps > 0; warps /= 2)
    if (k.target->registers_at_entry(warps) > registers) is_worth_going_on(warps);
  return found;
}

/// Returns the call that requests the plan of an OtherWarps.
std::string call_text(const PlanPatch& plan) {
  std::string fields;
  if (plan.num_warps) fields = fmt::format(".num_warps = {}", *plan.num_warps);
  if (plan.min_ctas_per_sm)
    fields +=
        fmt::format("{}.min_ctas_per_sm = {}", fields.empty() ? "" : ", ", *plan.min_ctas_per_sm);
  return fmt::format("with_plan({{{}}})", fields);
}

/// Returns true if the author of the kernel or of the call sets the number of warps.
bool has_given_warps(const Compilation& k, const CompileRequest& request) {
  const PlanPatch fields = ir::merged(k.tile.info.preferred, k.planned.fields());
  return request.plan || k.planned.schedule || fields.num_warps || fields.warps_m || fields.warps_n;
}

/// Replaces a kernel that spills by one with another number of warps. If the author has set the
/// number, or the rows of wgmmas determine it, adds a remark that names the other one, for the
/// warning.
void avoid_spills(Compilation& k, const CompileRequest& request) {
  const bool is_fixed = k.plan.wgmma || has_given_warps(k, request);
  if (k.report.spilled_bytes() == 0 || (is_fixed && warnings_are_muted())) return;
  std::optional<OtherWarps> other = other_warps_without_spills(k, request);
  const auto remark = [](Compilation& to, ir::Remark::Kind kind, std::string_view reason,
                         std::string plan, std::string spills) {
    to.remarks.push_back(
        {"plan", {}, kind, std::string(reason), {{std::move(plan), std::move(spills)}}});
  };
  const std::string now = fmt::format("num_warps={}", k.plan.num_warps);
  if (!other) return remark(k, ir::Remark::Kind::Missed, kSpillsAnyway, now, k.report.defects());
  if (is_fixed)
    return remark(k, ir::Remark::Kind::Missed, kSpillsNotWith, call_text(other->plan), "no spills");
  remark(other->compiled, ir::Remark::Kind::Applied, "another plan would spill", now,
         k.report.defects());
  other->compiled.timings = std::move(k.timings);
  k = std::move(other->compiled);
}

}  // namespace

void assemble(Compilation& k, const CompileRequest& request) {
  assemble_once(k, request);
  std::optional<Compilation> best;
  const auto defects = [](const AssembleReport& r) {
    return std::tuple(!r.is_clean(), r.serialised || r.setmaxnreg_ignored,
                      r.spill_stores + r.spill_loads);
  };
  for (const unsigned set :
       k.report.is_clean() ? std::vector<unsigned>() : pass_subsets_to_drop(k)) {
    std::optional<Compilation> other = recompile_without(set, k, request);
    if (other && defects(other->report) < defects(best ? best->report : k.report))
      best = std::move(other);
    if (best && best->report.is_clean()) break;
  }
  if (best) {
    best->timings = std::move(k.timings);
    k = std::move(*best);
  }
  avoid_spills(k, request);
}

Artefact make_artefact(Compilation& c) {
  Artefact a;
  a.name = c.name;
  a.target = c.target;
  a.backend = c.backend;
  a.key_text = c.key_text;
  a.schedule_text = c.plan.str();
  if (c.device.kind == DeviceKind::cpu) return a;  // the interpreter runs the trace
  a.recipe = make_recipe(c.tile, c.simt);
  a.threads = c.simt.info.threads;
  a.cluster = c.simt.info.cluster;
  a.shared_bytes = static_cast<std::uint32_t>(c.simt.info.smem_bytes);
  a.persistent = c.simt.info.persistent;
  a.cooperative = ir::any_op(c.tile, c.tile.body(), [&](ir::OpId op) {
    return c.tile[op].opcode == ir::Opcode::GridBarrier;
  });
  ir::walk(c.simt, c.simt.body(), [&](ir::OpId op) {
    a.programmatic_launch |= c.simt[op].opcode == ir::Opcode::GridDepWait;
    a.has_mma |= c.simt[op].opcode == ir::Opcode::Mma;
    a.has_wgmma |= c.simt[op].opcode == ir::Opcode::Wgmma;
  });
  if (c.device.kind == DeviceKind::sim) return a;
  a.report = std::move(c.report);
  a.code = std::move(c.backend == Backend::Llvm ? c.emitted.ptx : c.emitted.source);
  set_image(a, std::move(c.cubin));
  return a;
}

std::vector<Warning> warnings_of_passes(const CompileRequest& request) {
  Compilation c;
  key(c, request);
  trace(c, request);
  optimize(c, request);
  const Artefact artefact = make_artefact(c);
  return warnings_of({artefact, c.device.kind, c.tile, c.simt, c.remarks});
}

std::shared_ptr<const CompiledKernel> finish(Compilation c) {
  Artefact artefact = make_artefact(c);
  return std::make_shared<const CompiledKernel>(std::move(c), std::move(artefact));
}

}  // namespace tegula::runtime
