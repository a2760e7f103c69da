#pragma once
// Warnings about compiled kernels and about the tuner's results.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"
#include "ir/pipeline.h"
#include "runtime/artefact.h"
#include "tegula/device.h"
#include "tegula/warning.h"

namespace tegula::runtime {

/// Remarks of the verb `assemble` on a kernel that spills, which it compiles again with other
/// numbers of warps: they spill, too; or one of them does not, and the key of the remark's first
/// value is the call that requests it.
inline constexpr std::string_view kSpillsAnyway =
                                      "registers spill with other numbers of warps, too",
                                  kSpillsNotWith = "another plan spills no registers";

/// The data from which a kernel's warnings are derived.
struct WarningSources {
  const Artefact& artefact;
  DeviceKind device;
  const ir::Kernel& tile;
  const ir::Kernel& simt;  ///< has no name if the simt form is not known
  std::span<const ir::Remark> remarks;
};

/// Returns the warnings from the assembler's report and from the instructions chosen for dots, each
/// once. For a kernel that came from the disk cache, warnings about dots have lines only if all of
/// them use the same instruction.
std::vector<Warning> warnings_of(const WarningSources& sources);

/// Returns the warnings from the assembler's report alone.
std::vector<Warning> warnings_of_report(const std::string& kernel, const AssembleReport& report);

/// Returns the warning of TEGULA_JIT=warn about a kernel that has to be compiled.
Warning compiled_late_warning(const std::string& kernel, std::string_view target,
                              const std::string& key);

/// Returns the warning that the tuner's results are lost or not stored; `what` names which and why.
Warning store_warning(const std::string& what);

/// Returns the warning that the tuner has no separate process to measure in.
Warning worker_warning(const std::string& why);

}  // namespace tegula::runtime
