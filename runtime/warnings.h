#pragma once
// Warnings about a compiled kernel, given without being asked for.
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

/// Sources of a kernel's warnings.
struct WarningSources {
  const Artefact& artefact;
  DeviceKind device;
  const ir::Kernel& tile;
  const ir::Kernel& simt;  ///< without a name where it is not known
  std::span<const ir::Remark> remarks;
};

/// Warnings of the assembler's report and the products' instructions; each once. Products of a
/// kernel that came from the disk cache have their lines where all of them are of one kind.
std::vector<Warning> warnings_of(const WarningSources& sources);

/// Warnings of the assembler's report alone.
std::vector<Warning> warnings_of_report(const std::string& kernel, const AssembleReport& report);

/// The warning of TEGULA_JIT=warn about a kernel that has to be compiled.
Warning compiled_late_warning(const std::string& kernel, std::string_view target,
                              const std::string& key);

/// The warning that the tuner's results are lost or not kept; `what` says which and why.
Warning store_warning(const std::string& what);

/// The warning that the tuner has no process of its own to measure in.
Warning worker_warning(const std::string& why);

}  // namespace tegula::runtime
