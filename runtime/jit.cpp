// The six verbs. This is the first file to read: a kernel's way from the user's lambda to the GPU.
#include "runtime/jit.h"

#include <algorithm>
#include <chrono>

#include "runtime/jit_steps.h"
#include "runtime/stored_kernel.h"
#include "runtime/warnings.h"
#include "support/env.h"

namespace tegula::runtime {
namespace {

/// Runs one verb and notes what it took.
template <class Step>
void timed(CompiledKernel& k, const char* verb, Step step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  k.timings.push_back(
      {verb, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                 .count()});
}

/// The cpu refuses what the compiler refuses, in the same words, although it interprets the trace:
/// one language on every device. The result is thrown away; a key is compiled once a process.
void require_compilable(const CompiledKernel& k, const CompileRequest& request) {
  const auto& checks = env().check;
  if (std::ranges::find(checks, "nocompile") != checks.end()) return;
  CompiledKernel trial;
  key(trial, request);
  trial.tile = ir::clone(k.tile);
  optimize(trial, request);
}

}  // namespace

std::shared_ptr<const CompiledKernel> compile(const CompileRequest& request) {
  auto k = std::make_shared<CompiledKernel>();
  timed(*k, "key", [&] { key(*k, request); });
  timed(*k, "trace", [&] { k->tile = request.trace(); });
  k->name = k->tile.info.name;
  if (k->device.kind == DeviceKind::cpu) {
    timed(*k, "optimize", [&] { require_compilable(*k, request); });
  } else {
    StoredKernel on_disk(*k, request);
    bool found = false;
    timed(*k, "find", [&] { found = on_disk.load(); });
    if (!found) {
      timed(*k, "optimize", [&] { optimize(*k, request); });
      if (k->device.kind == DeviceKind::cuda) {
        timed(*k, "emit", [&] { emit(*k, request); });
        timed(*k, "assemble", [&] { assemble(*k, request); });
      }
      on_disk.save();
    }
    timed(*k, "launch", [&] { prepare_launch(*k); });
  }
  k->warnings = warnings_of(*k);
  write_dumps(*k);
  return k;
}

}  // namespace tegula::runtime
