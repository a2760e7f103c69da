#pragma once
// Report of the kernels that a process compiled, and where it found the rest.
#include <string>

namespace tegula {

/// A line for each of the last 4096 kernels that this process compiled or found: its name, target,
/// where its code came from (a bundle, the disk cache, or compiled, with the back end) and the
/// milliseconds from trace to machine code; then their number and sum. TEGULA_REPORT=1 writes it to
/// the standard error stream as the process ends.
std::string compile_report();

}  // namespace tegula
