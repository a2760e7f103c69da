// Implementation of the verbs; runtime/jit.cpp has their order.
#include "runtime/jit_verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "codegen/check/simt_check.h"
#include "codegen/lower/lower_simt.h"
#include "runtime/context.h"
#include "runtime/make_recipe.h"
#include "runtime/nvrtc.h"
#include "runtime/warnings.h"
#include "support/env.h"
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
                    "computes registers once that shifts and masks leave equal"});
  passes.push_back({"canonicalize_simt", ir::Form::Simt, ir::Form::Simt, &ir::canonicalize,
                    "cleans up after lowering"});
  passes.push_back({"check_simt", ir::Form::Simt, ir::Form::Simt, &codegen::check_simt,
                    "follows fences, barriers, bulk groups and MMAs: none is missing"});
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
        "divisions by what a loop does not change stay: there are no registers for reciprocals"},
    RegisterHungryPass{
        "masks_to_row_bounds",
        "masks are compared as they are written: there are no registers for the limits of rows"}};

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
  AssembleJob job{.kernel = k.name, .ptx = k.emitted.ptx, .target = target, .options = {}};
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

/// Compiles again under the same plan. Returns nothing if the result does not fit in shared memory:
/// without a pass, other tiles need shared memory for layout conversions.
std::optional<Compilation> recompile_without(unsigned set, const Compilation& k,
                                             const CompileRequest& request) {
  std::vector<ir::Pass> passes = optimize_passes();
  for (unsigned i = 0; i < kRegisterHungryPasses.size(); ++i)
    if (set >> i & 1U)
      std::erase_if(
          passes, [&](const ir::Pass& pass) { return pass.name == kRegisterHungryPasses[i].pass; });
  Compilation other;
  other.device = k.device, other.backend = k.backend;
  other.target = k.target, other.assembler_target = k.assembler_target;
  other.key_text = k.key_text, other.planned = k.planned;
  other.tile = ir::clone(k.tile);
  try {
    optimize_by(other, request, k.plan, passes);
  } catch (const ir::SharedMemoryError&) {
    return std::nullopt;
  }
  if (!fits(other)) return std::nullopt;
  for (unsigned i = 0; i < kRegisterHungryPasses.size(); ++i)
    if (set >> i & 1U)
      other.remarks.push_back({std::string(kRegisterHungryPasses[i].pass),
                               {},
                               ir::Remark::Kind::Missed,
                               std::string(kRegisterHungryPasses[i].remark),
                               {{"with them", k.report.defects()}}});
  emit(other, request);
  assemble_once(other, request);
  return other;
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
  if (!best) return;
  best->timings = std::move(k.timings);
  k = std::move(*best);
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
