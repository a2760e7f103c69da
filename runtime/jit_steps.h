#pragma once
// What each verb of runtime/jit.cpp does to a kernel under compilation.
#include "runtime/jit.h"

namespace tegula::runtime {

void key(CompiledKernel& k, const CompileRequest& request);
/// Throws SharedMemoryError, or CompileError naming what was asked of the plan, where the kernel
/// does not fit a CTA.
void optimize(CompiledKernel& k, const CompileRequest& request);
/// Once, by these passes and this plan or, if there is none, one that is chosen and changed as the
/// request says.
void optimize_by(CompiledKernel& k, const CompileRequest& request,
                 const std::optional<ir::Plan>& plan,
                 std::span<const ir::Pass> passes = optimize_passes());
/// The shared memory of a CTA, rings and the lowering's scratch.
bool fits(const CompiledKernel& k);
void emit(CompiledKernel& k, const CompileRequest& request);
/// What `assemble` assembles for: the GPU's own machine code where the PTX of an older one runs.
std::string assembler_target(const CompiledKernel& k);
void assemble(CompiledKernel& k, const CompileRequest& request);
void prepare_launch(CompiledKernel& k);
/// TEGULA_DUMP=VERBS:DIR
void write_dumps(const CompiledKernel& k);

}  // namespace tegula::runtime
