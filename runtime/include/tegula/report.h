#pragma once
// Report of the kernels that a process compiled, and of the origin of the others.
#include <string>

namespace tegula {

/// Returns a line for each of the last 4096 kernels that this process compiled or found: its name,
/// target, the origin of its code (a bundle, the disk cache, or compiled, with the back end) and
/// the milliseconds from the key to the machine code; then their number and total. TEGULA_REPORT=1
/// writes it to the standard error stream when the process ends.
std::string compile_report();

}  // namespace tegula
