// The six verbs. This is the first file to read: a kernel's way from the user's lambda to the GPU.
// The sixth, launch, is CompiledKernel::launch: the artefact is loaded on a GPU at its first call
// there.
#include "runtime/jit.h"

#include <chrono>

#include "runtime/disk_cache.h"
#include "runtime/jit_verbs.h"

namespace tegula::runtime {
namespace {

/// Runs one verb and notes what it took.
template <class Step>
void timed(Compilation& c, const char* verb, Step step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  c.timings.push_back(
      {verb, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                 .count()});
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
    DiskCacheLookup on_disk(c, request);
    bool found = false;
    timed(c, "find", [&] { found = on_disk.load(artefact); });
    if (!found) {
      timed(c, "optimize", [&] { optimize(c, request); });
      if (c.device.kind == DeviceKind::cuda) {
        timed(c, "emit", [&] { emit(c, request); });
        timed(c, "assemble", [&] { assemble(c, request); });
      }
      artefact = make_artefact(c);
      on_disk.save(artefact);
    }
  }
  const auto kernel = std::make_shared<const CompiledKernel>(std::move(c), std::move(artefact));
  write_dumps(*kernel);
  return kernel;
}

}  // namespace tegula::runtime
