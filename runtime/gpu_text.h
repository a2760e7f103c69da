#pragma once
// The GPU code of a kernel that was compiled for a device of the host.
#include <string>
#include <string_view>

#include "runtime/jit.h"

namespace tegula::runtime {

/// The text of verb "emit" or "ptx" for the kernel's target, by its back end: what was emitted, or,
/// of a kernel for cpu or sim, what is emitted now for a GPU of that target. Throws what a
/// compilation for the GPU throws.
std::string gpu_text(const CompiledKernel& kernel, std::string_view verb);

}  // namespace tegula::runtime
