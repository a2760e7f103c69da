#pragma once
// Candidates are compiled by all threads of the host; facts of their machine code.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "autotune/race/measure.h"
#include "runtime/compiled_kernel.h"

namespace tegula::autotune {

/// Calls `work(i)` for i = 0 .. count - 1, on all threads at one time. It must not throw, but in
/// the one call of a count of 1.
void on_all_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// Defects of code, as text: codes of warnings are those of runtime/warnings.def.
std::string defects_of(const std::vector<Warning>& warnings);

/// Adds the facts of a kernel's machine code to those of the candidate's other kernels.
void add_code(Prepared& out, const runtime::CompiledKernel& kernel, Device device);

}  // namespace tegula::autotune
