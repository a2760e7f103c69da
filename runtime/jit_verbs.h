#pragma once
// The steps that each verb of runtime/jit.cpp takes on a kernel under compilation.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/jit.h"

namespace tegula::runtime {

/// Fields that the chosen plan must have, TEGULA_PLAN's over the author's.
ir::PlanRequest planned_by(const CompileRequest& request);
void key(Compilation& c, const CompileRequest& request);
void trace(Compilation& c, const CompileRequest& request);
/// Throws SharedMemoryError, or CompileError naming what was asked of the plan, where the kernel
/// does not fit a CTA.
void optimize(Compilation& c, const CompileRequest& request);
/// Once, by these passes and this plan or, if there is none, one that is chosen and changed as the
/// request says.
void optimize_by(Compilation& c, const CompileRequest& request, const std::optional<ir::Plan>& plan,
                 std::span<const ir::Pass> passes = optimize_passes());
/// Refuses what the compiler refuses, in the same words, for the cpu, which interprets the trace:
/// one language on every device. The result is thrown away; a key is compiled once a process.
void require_compilable(const Compilation& c, const CompileRequest& request);
/// The warnings of a compilation that nothing is emitted and assembled for.
std::vector<Warning> warnings_of_passes(const CompileRequest& request);
/// The shared memory of a CTA, rings and the lowering's scratch.
bool fits(const Compilation& c);
void emit(Compilation& c, const CompileRequest& request);
void assemble(Compilation& c, const CompileRequest& request);
/// The result as data. The image and the text of the code move into it.
Artefact make_artefact(Compilation& c);
/// The kernel whose verbs up to `assemble` were run one by one.
std::shared_ptr<const CompiledKernel> finish(Compilation c);
/// TEGULA_DUMP=VERBS:DIR
void write_dumps(const CompiledKernel& k);

}  // namespace tegula::runtime
