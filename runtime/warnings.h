#pragma once
// What is to be said about a compiled kernel without being asked.
#include <vector>

#include "runtime/jit.h"
#include "tegula/warning.h"

namespace tegula::runtime {

/// Of the assembler's report and the products' instructions; each once. Products of a kernel that
/// came from the disk cache have their lines where all of them are of one kind.
std::vector<Warning> warnings_of(const CompiledKernel& kernel);

}  // namespace tegula::runtime
