#pragma once
// Timings are keyed by machine code, independent of its source.
#include <string>

#include "runtime/compiled_kernel.h"

namespace tegula::autotune {

/// Returns 32 hexadecimal digits. For a cubin, the hash covers the sections that run (.text,
/// .nv.info, .nv.constant, the sizes of .nv.shared) and the launch shape, but no names, notes or
/// line tables.
std::string code_hash(const runtime::CompiledKernel& kernel);

}  // namespace tegula::autotune
