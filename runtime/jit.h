#pragma once
// Compiles a traced kernel to one that can be launched, in six verbs: key, trace, optimize, emit,
// assemble, launch.
#include <memory>
#include <vector>

#include "ir/pipeline.h"
#include "runtime/compilation.h"
#include "runtime/compiled_kernel.h"

namespace tegula::runtime {

/// Runs the verbs up to `assemble`, or up to `trace` if a bundle or the disk cache has the rest.
/// Does not need a GPU if the request names its target. Throws CompileError for mistakes of the
/// kernel's author, DeviceError if a back end or an assembler is missing or fails.
std::shared_ptr<const CompiledKernel> compile(const CompileRequest& request);

/// Returns the passes of the verb `optimize`, in order: those of ir/passes and the lowering.
std::vector<ir::Pass> optimize_passes();

}  // namespace tegula::runtime
