#pragma once
// What becomes of a traced kernel, a stage further each.
#include "runtime/jit_steps.h"

namespace tegula::test {

/// Simt form.
inline runtime::CompiledKernel optimized(const ir::Kernel& tile,
                                         const runtime::CompileRequest& request) {
  runtime::CompiledKernel k;
  runtime::key(k, request);
  k.tile = ir::clone(tile);
  runtime::optimize(k, request);
  return k;
}

/// Machine code.
inline runtime::CompiledKernel assembled(const ir::Kernel& tile,
                                         const runtime::CompileRequest& request) {
  runtime::CompiledKernel k = optimized(tile, request);
  runtime::emit(k, request);
  runtime::assemble(k, request);
  return k;
}

}  // namespace tegula::test
