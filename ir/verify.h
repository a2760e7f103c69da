#pragma once
// Checks every invariant of a kernel in its form and reports all violations.
#include <vector>

#include "ir/kernel.h"
#include "tegula/error.h"

namespace tegula::ir {

/// Empty when the kernel is well formed for `kernel.info.form`.
std::vector<Diagnostic> verify(const Kernel& kernel);
/// Throws InternalError listing every violation under the printed kernel.
void verify_or_throw(const Kernel& kernel, std::string_view after = "");

}  // namespace tegula::ir
