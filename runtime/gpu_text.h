#pragma once
// The GPU code of a kernel that was compiled for a device of the host.
#include <string>
#include <string_view>

#include "runtime/jit.h"

namespace tegula::runtime {

/// Returns the text of the verb "emit" or "ptx" for the kernel's target and back end. For a kernel
/// of cpu or sim, this call emits it for a GPU of that target, and throws what a compilation for
/// the GPU throws.
std::string gpu_text(const CompiledKernel& kernel, std::string_view verb);

}  // namespace tegula::runtime
