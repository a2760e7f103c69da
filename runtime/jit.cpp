// The six verbs. Read this file first: it takes a kernel from the user's lambda to the GPU. The
// sixth verb, launch, is CompiledKernel::launch: it loads the artefact on a GPU at its first call
// there.
#include "runtime/jit.h"

#include <chrono>

#include "runtime/bundle_lookup.h"
#include "runtime/compile_records.h"
#include "runtime/disk_cache.h"
#include "runtime/jit_verbs.h"
#include "runtime/kernel_entry.h"
#include "runtime/kernel_recorder.h"
#include "runtime/warnings.h"
#include "support/env.h"
#include "support/errors.h"
#include "support/warnings.h"

namespace tegula::runtime {
namespace {

/// Runs one verb and records its duration.
template <class Step>
void timed(Compilation& c, const char* verb, Step step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  c.timings.push_back(
      {verb, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                 .count()});
}

/// Returns the first location in the kernel that is known.
Loc first_place(const ir::Kernel& tile) {
  Loc at;
  ir::walk(tile, tile.body(), [&](ir::OpId op) {
    if (!at.known()) at = tile[op].loc;
  });
  return at;
}

/// Rejects a kernel that has to be compiled, or warns about it, as TEGULA_JIT specifies.
void check_jit_policy(const Compilation& c, const CompileRequest& request) {
  if (env().jit == "allow") return;
  const std::string key = kernel_key(c, request).hash().hex();
  if (env().jit == "warn") {
    const Warning late = compiled_late_warning(c.name, c.target.name(), key);
    return report_warnings({&late, 1});
  }
  std::string faults;
  for (const std::string& fault : bundle_layers().faults()) faults += "; " + fault;
  fail(ErrorId::compile_denied, first_place(c.tile), {}, c.name, c.target.name(), key, faults);
}

/// Runs the verbs after `trace` for a kernel that has code: finds the code, or compiles and stores
/// it.
CodeSource find_or_make(Compilation& c, const CompileRequest& request, Artefact& artefact) {
  DiskCacheLookup on_disk(c, request);
  bool is_bundled = false, is_on_disk = false;
  timed(c, "find", [&] {
    is_bundled = load_from_bundle(c, request, artefact);
    is_on_disk = !is_bundled && on_disk.load(artefact);
  });
  if (is_bundled) return CodeSource::bundle;
  if (is_on_disk) return CodeSource::disk;
  check_jit_policy(c, request);
  timed(c, "optimize", [&] { optimize(c, request); });
  if (c.device.kind == DeviceKind::cuda) {
    timed(c, "emit", [&] { emit(c, request); });
    timed(c, "assemble", [&] { assemble(c, request); });
  }
  artefact = make_artefact(c);
  on_disk.save(artefact);
  return CodeSource::compiled;
}

void record(const Compilation& c, CodeSource source) {
  double ms = 0;
  for (const VerbTiming& verb : c.timings) ms += verb.ms;
  const bool has_code = c.device.kind == DeviceKind::cuda;
  record_compile({c.name, has_code ? std::string(c.target.name()) : "sim",
                  has_code ? std::string(name(c.backend)) : "", source, ms});
}

}  // namespace

std::shared_ptr<const CompiledKernel> compile(const CompileRequest& request) {
  Compilation c;
  Artefact artefact;
  timed(c, "key", [&] { key(c, request); });
  timed(c, "trace", [&] { trace(c, request); });
  if (c.device.kind == DeviceKind::cpu) {
    timed(c, "optimize", [&] { require_compilable(c, request); });
    artefact = make_artefact(c);
  } else {
    record(c, find_or_make(c, request, artefact));
  }
  KernelRecorder* const recorder =
      c.device.kind == DeviceKind::cuda ? KernelRecorder::current() : nullptr;
  std::optional<BundledKernel> entry;
  if (recorder != nullptr)
    entry = {kernel_key(c, request), kernel_entry(c, artefact, keeps_lines(c, request))};
  const auto kernel = std::make_shared<const CompiledKernel>(std::move(c), std::move(artefact));
  if (entry) recorder->record(kernel, std::move(*entry));
  write_dumps(*kernel);
  return kernel;
}

}  // namespace tegula::runtime
