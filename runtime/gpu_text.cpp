#include "runtime/gpu_text.h"

#include "runtime/jit_verbs.h"
#include "runtime/nvrtc.h"

namespace tegula::runtime {

std::string gpu_text(const CompiledKernel& kernel, std::string_view verb) {
  if (kernel.device.kind == DeviceKind::cuda) return kernel.dump(verb);
  CompileRequest request;
  request.device = kernel.device;
  request.target = kernel.artefact().target;
  request.backend = kernel.artefact().backend;
  // The passes choose the same plan for sim as for the GPU. A kernel for cpu has no plan.
  if (kernel.device.kind == DeviceKind::sim) request.plan = kernel.plan;
  request.planned = kernel.planned;
  Compilation c;
  key(c, request);
  c.tile = ir::clone(kernel.tile);
  c.name = c.tile.info.name;
  optimize(c, request);
  emit(c, request);
  const bool is_by_llvm = c.backend == Backend::Llvm;
  if (verb == "emit" && !c.emitted.source.empty()) return c.emitted.source;
  return is_by_llvm ? c.emitted.ptx
                    : ptx_of_cuda({.source = c.emitted.source,
                                   .name = c.name + ".cu",
                                   .target = std::string(c.target.name()),
                                   .options = {}});
}

}  // namespace tegula::runtime
