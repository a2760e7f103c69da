#include "runtime/gpu_text.h"

#include "runtime/jit_steps.h"

namespace tegula::runtime {

std::string gpu_text(const CompiledKernel& kernel, std::string_view verb) {
  if (kernel.device.kind == DeviceKind::cuda) return kernel.dump(verb);
  CompiledKernel k;
  CompileRequest request;
  request.device = kernel.device;
  request.target = kernel.target;
  request.backend = kernel.backend;
  // The plan that the passes chose for sim is that of the GPU; of cpu there is none.
  if (kernel.device.kind == DeviceKind::sim) request.plan = kernel.plan;
  key(k, request);
  k.tile = ir::clone(kernel.tile);
  k.name = kernel.name;
  optimize(k, request);
  emit(k, request);
  return k.dump(verb);
}

}  // namespace tegula::runtime
