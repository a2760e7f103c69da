// The verbs' work: see runtime/jit.cpp for their order.
#include "runtime/jit_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "codegen/check/simt_check.h"
#include "codegen/lower/lower_simt.h"
#include "runtime/context.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"
#include "support/env.h"
#include "tegula/error.h"

namespace tegula::ir {
bool canonicalize(Kernel&, PassContext&);
}

namespace tegula::runtime {

std::string_view name(Backend b) { return b == Backend::Llvm ? "llvm" : "nvrtc"; }

Backend default_backend() {
  if (env().backend == "nvrtc") return Backend::Nvrtc;
  return Backend::Llvm;
}

std::vector<ir::Pass> optimize_passes() {
  std::vector<ir::Pass> passes(ir::ir_passes().begin(), ir::ir_passes().end());
  passes.push_back({"lower_simt", ir::Form::Machine, ir::Form::Simt, &codegen::lower_simt,
                    "tiles become the registers of one thread"});
  passes.push_back({"canonicalize_simt", ir::Form::Simt, ir::Form::Simt, &ir::canonicalize,
                    "cleans up after lowering"});
  passes.push_back({"check_simt", ir::Form::Simt, ir::Form::Simt, &codegen::check_simt,
                    "follows fences, barriers, bulk groups and products: none is missing"});
  return passes;
}

void key(CompiledKernel& k, const CompileRequest& request) {
  k.device = request.device;
  k.target = request.target.empty() ? std::string(default_target(request.device)) : request.target;
  k.backend = request.backend.value_or(default_backend());
  k.key_text = request.key;
}

void emit(CompiledKernel& k, const CompileRequest& request) {
  const codegen::EmitOptions options{.lineinfo = request.lineinfo || env().lineinfo,
                                     .keep_source = !env().dump.empty()};
  k.emitted = k.backend == Backend::Llvm ? codegen::emit_llvm(k.simt, options)
                                         : codegen::emit_cuda(k.simt, options);
}

std::string assembler_target(const CompiledKernel& k) {
  // The sm_80 path on a newer GPU is assembled for that GPU where ptxas can, so that its own SASS
  // is what runs.
  if (k.target == "sm_80" && k.device.kind == DeviceKind::cuda &&
      device_properties(k.device.index).compute() == 90)
    return "sm_90";
  return k.target;
}

namespace {

/// What a kernel can do without where registers are short, which only the assembler knows.
struct Spared {
  std::string_view pass, remark;
};
constexpr std::array kSpared{
    Spared{"invariant_divisions",
           "divisions by what a loop does not change stay: there are no registers for reciprocals"},
    Spared{
        "interval_masks",
        "masks are compared as they are written: there are no registers for the limits of rows"}};

void assemble_once(CompiledKernel& k, const CompileRequest& request) {
  const std::string target = assembler_target(k);
  if (k.backend == Backend::Nvrtc) {
    NvrtcJob job{.source = k.emitted.source,
                 .name = k.name + ".cu",
                 .target = target,
                 .options = {},
                 .wants_ptx = false};
    if (request.lineinfo || env().lineinfo) job.options.push_back("-lineinfo");
    NvrtcResult result = compile_cuda(job);
    k.cubin = std::move(result.cubin);
    k.report = std::move(result.report);
    return;
  }
  if (!find_ptxas()) return;  // the driver compiles the PTX when it is loaded
  AssembleJob job{.ptx = k.emitted.ptx, .target = target, .options = {}};
  if (request.lineinfo || env().lineinfo) job.options.push_back("-lineinfo");
  Assembled result = runtime::assemble(job);
  k.cubin = std::move(result.cubin);
  k.report = std::move(result.report);
}

bool has_changed(const CompiledKernel& k, std::string_view name) {
  return std::ranges::any_of(
      k.passes, [&](const ir::PassTiming& pass) { return pass.changed && pass.name == name; });
}

/// Each alone, then together; bit i for the one numbered i.
std::vector<unsigned> sets_to_spare(const CompiledKernel& k) {
  unsigned all = 0;
  std::vector<unsigned> sets;
  for (unsigned i = 0; i < kSpared.size(); ++i) {
    if (!has_changed(k, kSpared[i].pass)) continue;
    sets.push_back(1U << i);
    all |= 1U << i;
  }
  if (sets.size() > 1) sets.push_back(all);
  return sets;
}

/// Under the same plan. Nothing where that does not fit the shared memory: without a pass, other
/// tiles are converted through it.
std::optional<CompiledKernel> compiled_without(unsigned set, const CompiledKernel& k,
                                               const CompileRequest& request) {
  std::vector<ir::Pass> passes = optimize_passes();
  for (unsigned i = 0; i < kSpared.size(); ++i)
    if (set >> i & 1U)
      std::erase_if(passes, [&](const ir::Pass& pass) { return pass.name == kSpared[i].pass; });
  CompiledKernel other;
  other.device = k.device, other.target = k.target, other.backend = k.backend;
  other.key_text = k.key_text;
  other.tile = ir::clone(k.tile);
  try {
    optimize_by(other, request, k.plan, passes);
  } catch (const ir::SharedMemoryError&) {
    return std::nullopt;
  }
  if (!fits(other)) return std::nullopt;
  for (unsigned i = 0; i < kSpared.size(); ++i)
    if (set >> i & 1U)
      other.remarks.push_back({std::string(kSpared[i].pass),
                               {},
                               ir::Remark::Kind::Missed,
                               std::string(kSpared[i].remark),
                               {{"with them", k.report.complaint()}}});
  emit(other, request);
  assemble_once(other, request);
  return other;
}

}  // namespace

void assemble(CompiledKernel& k, const CompileRequest& request) {
  assemble_once(k, request);
  std::optional<CompiledKernel> best;
  const auto defects = [](const AssembleReport& r) {
    return std::tuple(!r.sound(), r.serialised || r.setmaxnreg_ignored,
                      r.spill_stores + r.spill_loads);
  };
  for (const unsigned set : k.report.sound() ? std::vector<unsigned>() : sets_to_spare(k)) {
    std::optional<CompiledKernel> other = compiled_without(set, k, request);
    if (other && defects(other->report) < defects(best ? best->report : k.report))
      best = std::move(other);
    if (best && best->report.sound()) break;
  }
  if (!best) return;
  best->timings = std::move(k.timings);
  k = std::move(*best);
}

namespace {

/// Programs that the device runs at one time, one on each SM.
std::int64_t programs_at_once(Device device) {
  constexpr std::int64_t kSimulated = 4;  // few, so that small grids take several turns
  return device.kind == DeviceKind::cuda ? device_properties(device.index).sm_count : kSimulated;
}

/// The same in whole clusters, of which the groups of SMs they must lie in may not be full.
std::int64_t programs_at_once(const CompiledKernel& k) {
  const std::int64_t cluster = k.simt.info.cluster, all = programs_at_once(k.device);
  const int clusters = k.gpu && cluster > 1 ? k.gpu->most_clusters() : 0;
  return cluster * (clusters > 0 ? clusters : std::max<std::int64_t>(1, all / cluster));
}

}  // namespace

void prepare_launch(CompiledKernel& k) {
  k.recipe = LaunchRecipe::make(k.tile, k.simt);
  const auto limit_programs = [&] {
    if (k.simt.info.persistent)
      k.recipe.set_most_programs(programs_at_once(k), k.simt.info.cluster);
  };
  if (k.device.kind != DeviceKind::cuda) return limit_programs();
  const auto module = k.cubin.empty() ? Module::load_ptx(k.emitted.ptx, k.device.index)
                                      : Module::load_cubin(k.cubin);
  const auto shared = static_cast<unsigned>(k.simt.info.smem_bytes);
  const LoadedKernel loaded =
      module->kernel(k.name, k.device.index,
                     {.dynamic_shared_bytes = shared, .large_cluster = k.simt.info.cluster > 8});
  if (k.cubin.empty()) k.report = module->report();
  LaunchShape shape;
  shape.block = {static_cast<unsigned>(k.simt.info.threads), 1, 1};
  shape.cluster = {static_cast<unsigned>(k.simt.info.cluster), 1, 1};
  shape.shared_bytes = shared;
  ir::walk(k.simt, k.simt.body(), [&](ir::OpId op) {
    shape.starts_early |= k.simt[op].opcode == ir::Opcode::GridDepWait;
  });
  k.gpu.emplace(loaded, shape, k.recipe.slots());
  limit_programs();
}

}  // namespace tegula::runtime
