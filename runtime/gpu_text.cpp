#include "runtime/gpu_text.h"

#include "runtime/jit_verbs.h"

namespace tegula::runtime {

std::string gpu_text(const CompiledKernel& kernel, std::string_view verb) {
  if (kernel.device.kind == DeviceKind::cuda) return kernel.dump(verb);
  CompileRequest request;
  request.device = kernel.device;
  request.target = kernel.artefact().target;
  request.backend = kernel.artefact().backend;
  // The plan that the passes chose for sim is that of the GPU; of cpu there is none.
  if (kernel.device.kind == DeviceKind::sim) request.plan = kernel.plan;
  Compilation c;
  key(c, request);
  c.tile = ir::clone(kernel.tile);
  optimize(c, request);
  emit(c, request);
  if (verb == "ptx" || c.emitted.source.empty()) return c.emitted.ptx;
  return c.emitted.source;
}

}  // namespace tegula::runtime
