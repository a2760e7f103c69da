#pragma once
// Runs optimize, emit and assemble on a traced kernel for a GPU that need not be present, and
// reports the result.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/jit.h"

namespace tegula::tools {

/// Returns the tile form of kernel `name`, which `run` calls on the device cpu. `run` must be the
/// first call of the kernel with its class of arguments in this process.
ir::Kernel traced(const std::string& name, const std::function<void()>& run);

/// Runs optimize, emit and assemble. Throws DeviceError if the back end or the assembler is
/// missing; if only ptxas is missing, returns the PTX with an empty report.
std::shared_ptr<const runtime::CompiledKernel> compiled_for(const ir::Kernel& tile,
                                                            ir::Target target,
                                                            runtime::Backend backend);

/// Returns PTX or source size, registers, spills, shared memory and occupancy as one line, with a
/// note for each missing figure.
std::string size_line(const runtime::Artefact& a);

/// Returns the doctor's lines on how to obtain the missing figures; empty if none are missing.
std::string missing_parts();

/// Returns the first line of a longer text, without a trailing colon.
std::string headline(std::string_view text);

/// Parses "llvm" or "nvrtc". CLI11 has validated the text.
runtime::Backend backend_of(const std::string& name);
std::vector<std::string> backend_names();
/// Parses the name of a target, which must be one of target_names().
ir::Target target_of(const std::string& name);
std::vector<std::string> target_names();

}  // namespace tegula::tools
