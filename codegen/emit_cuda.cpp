// Entry point of the CUDA C++ emitter.
#include <chrono>

#include "codegen/cuda/emitter.h"
#include "codegen/emit.h"
#include "codegen/ptx/instructions.h"
#include "tegula/error.h"

namespace tegula::codegen {

Emitted emit_cuda(const ir::Kernel& kernel, const EmitOptions& options) {
  if (kernel.info.form != ir::Form::Simt)
    throw InternalError("CUDA emitter: kernel " + kernel.info.name + " is not in simt form");
  ptx::require_conversions(kernel);
  const auto start = std::chrono::steady_clock::now();
  Emitted out;
  out.source = cuda::Emitter(kernel, options.lineinfo).run();
  out.codegen_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace tegula::codegen
