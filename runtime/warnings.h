#pragma once
// Warnings about a compiled kernel, given without being asked for.
#include <vector>

#include "runtime/jit.h"
#include "tegula/warning.h"

namespace tegula::runtime {

/// Warnings of the assembler's report and the products' instructions; each once. Products of a
/// kernel that came from the disk cache have their lines where all of them are of one kind.
std::vector<Warning> warnings_of(const CompiledKernel& kernel);

}  // namespace tegula::runtime
