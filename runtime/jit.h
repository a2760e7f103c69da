#pragma once
// From a traced kernel to something that can be launched: the six verbs key, trace, optimize, emit,
// assemble, launch.
#include <memory>
#include <vector>

#include "ir/pipeline.h"
#include "runtime/compilation.h"
#include "runtime/compiled_kernel.h"

namespace tegula::runtime {

/// The verbs up to `assemble`, or up to `trace` where the disk cache holds the rest. Needs no GPU
/// where the request names its target. Throws CompileError for mistakes of the kernel's author,
/// DeviceError where a back end or an assembler is missing or fails.
std::shared_ptr<const CompiledKernel> compile(const CompileRequest& request);

/// Passes of the verb `optimize`, in order: those of ir/passes and the lowering.
std::vector<ir::Pass> optimize_passes();

}  // namespace tegula::runtime
