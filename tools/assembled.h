#pragma once
// A traced kernel taken through optimize, emit and assemble for a GPU that need not be here, and
// what came out.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/jit.h"

namespace tegula::tools {

/// The tile form of kernel `name`, which `run` calls on the device cpu. `run` must be the first
/// call of the kernel for its class of arguments in this process.
ir::Kernel traced(const std::string& name, const std::function<void()>& run);

/// The verbs optimize, emit and assemble. Throws DeviceError where the back end or the assembler is
/// missing; without ptxas the PTX is there and the report is empty.
std::shared_ptr<const runtime::CompiledKernel> compiled_for(const ir::Kernel& tile,
                                                            ir::Target target,
                                                            runtime::Backend backend);

/// PTX or source size, registers, spills, shared memory and occupancy as one line; what is missing,
/// where it is.
std::string size_line(const runtime::Artefact& a);

/// The lines of the doctor about what would make the missing figures known; empty if nothing is
/// missing.
std::string missing_parts();

/// The first line of a longer text, without a colon at its end.
std::string headline(std::string_view text);

/// "llvm" or "nvrtc". CLI11 has checked the text.
runtime::Backend backend_of(const std::string& name);
std::vector<std::string> backend_names();
/// Targets by name, for options; the name must be one of them.
ir::Target target_of(const std::string& name);
std::vector<std::string> target_names();

}  // namespace tegula::tools
