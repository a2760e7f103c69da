#pragma once
// A timing belongs to machine code, whatever it was made from.
#include <string>

#include "runtime/compiled_kernel.h"

namespace tegula::autotune {

/// 32 hexadecimal digits. Of a cubin: the sections that run (.text, .nv.info, .nv.constant and the
/// sizes of .nv.shared) with the launch's shape, so that names, notes and line tables do not count.
std::string code_hash(const runtime::CompiledKernel& kernel);

}  // namespace tegula::autotune
