#pragma once
// Barriers that keep a program's accesses to memory in order.
#include "ir/pipeline.h"
#include "runtime/jit.h"

namespace tegula::test {

inline int cta_barriers(const ir::Kernel& k) {
  int count = 0;
  ir::walk(k, k.body(), [&](ir::OpId op) { count += k[op].opcode == ir::Opcode::CtaBarrier; });
  return count;
}

/// How many the pass memory_order adds to a kernel of tile form.
inline int placed_barriers(const ir::Kernel& tile, std::string_view target,
                           const std::optional<ir::Plan>& plan = {}) {
  ir::Kernel k = ir::clone(tile);
  k.info.target = ir::Target::find(target).value();
  ir::PassContext context;
  context.plan = plan;
  for (const ir::Pass& pass : ir::ir_passes()) {
    const int before = cta_barriers(k);
    pass.run(k, context);
    k.info.form = pass.leaves;
    if (pass.name == "memory_order") return cta_barriers(k) - before;
  }
  return -1;
}
inline int placed_barriers(const runtime::CompiledKernel& compiled) {
  return placed_barriers(compiled.tile, compiled.artefact().target.name(), compiled.plan);
}

}  // namespace tegula::test
