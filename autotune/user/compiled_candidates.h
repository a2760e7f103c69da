#pragma once
// Parallel compilation of candidates, and properties of their machine code.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "autotune/race/measure.h"
#include "runtime/compiled_kernel.h"

namespace tegula::autotune {

/// Calls `work(i)` for i = 0 .. count - 1 on all threads. `work` must not throw, unless count is 1.
void on_all_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// Returns the defects of code as text, by the warning codes of runtime/warnings.def.
std::string defects_of(const std::vector<Warning>& warnings);

/// Adds the properties of a kernel's machine code to those of the candidate's other kernels.
void add_code(Prepared& out, const runtime::CompiledKernel& kernel, Device device);

}  // namespace tegula::autotune
