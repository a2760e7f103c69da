#pragma once
// The implementation of each verb of runtime/jit.cpp, for a kernel under compilation.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/jit.h"

namespace tegula::runtime {

/// Returns the fields that the chosen plan must have; those of TEGULA_PLAN override the author's.
ir::PlanRequest planned_by(const CompileRequest& request);
void key(Compilation& c, const CompileRequest& request);
void trace(Compilation& c, const CompileRequest& request);
/// Throws SharedMemoryError, or CompileError naming the requested plan fields, if the kernel does
/// not fit in a CTA.
void optimize(Compilation& c, const CompileRequest& request);
/// Runs these passes once, with this plan or, if it is empty, with a chosen plan that the request
/// modifies.
void optimize_by(Compilation& c, const CompileRequest& request, const std::optional<ir::Plan>& plan,
                 std::span<const ir::Pass> passes = optimize_passes());
/// Compiles the trace for the cpu, which interprets it, and discards the result: rejects what the
/// compiler rejects, with the same errors, so that every device accepts the same language. Each key
/// is compiled once per process.
void require_compilable(const Compilation& c, const CompileRequest& request);
/// Returns the warnings of a compilation without emitting and assembling code.
std::vector<Warning> warnings_of_passes(const CompileRequest& request);
/// Returns true if the rings and the lowering's scratch memory fit the shared memory of a CTA.
bool fits(const Compilation& c);
void emit(Compilation& c, const CompileRequest& request);
void assemble(Compilation& c, const CompileRequest& request);
/// Returns the result as data; moves the image and the text of the code into it.
Artefact make_artefact(Compilation& c);
/// Returns the kernel of a compilation whose verbs up to `assemble` were run one by one.
std::shared_ptr<const CompiledKernel> finish(Compilation c);
/// Writes the dumps of TEGULA_DUMP=VERBS:DIR.
void write_dumps(const CompiledKernel& k);

}  // namespace tegula::runtime
