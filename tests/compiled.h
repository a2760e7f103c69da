#pragma once
// A traced kernel at each later stage of compilation.
#include "runtime/jit_verbs.h"

namespace tegula::test {

/// Simt form.
inline runtime::Compilation optimized(const ir::Kernel& tile,
                                      const runtime::CompileRequest& request) {
  runtime::Compilation k;
  runtime::key(k, request);
  k.tile = ir::clone(tile);
  runtime::optimize(k, request);
  return k;
}

/// SIMT form, ready to run on sim; `c` may be changed and finished again.
inline std::shared_ptr<const runtime::CompiledKernel> finished(const runtime::Compilation& c) {
  runtime::Compilation copy;
  copy.device = c.device, copy.backend = c.backend;
  copy.name = c.name, copy.target = c.target, copy.plan = c.plan;
  copy.tile = ir::clone(c.tile), copy.simt = ir::clone(c.simt);
  return runtime::finish(std::move(copy));
}

/// Machine code.
inline runtime::Compilation assembled(const ir::Kernel& tile,
                                      const runtime::CompileRequest& request) {
  runtime::Compilation k = optimized(tile, request);
  runtime::emit(k, request);
  runtime::assemble(k, request);
  return k;
}

}  // namespace tegula::test
