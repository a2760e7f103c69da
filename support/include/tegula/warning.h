#pragma once
#include <functional>
#include <string>

#include "tegula/location.h"

/// A warning: the kernel runs, but not as its author may expect: registers spill, or an MMA does
/// not use the fast instruction.
namespace tegula {

/// One warning about a compiled kernel, or about the tuner's results.
struct Warning {
  std::string code;    ///< stable, e.g. "T1501"
  std::string kernel;  ///< name of the kernel; empty if the warning does not concern a kernel
  Loc place;           ///< line that causes the warning, or the kernel's line if unknown
  std::string text;    ///< the finding and its cost
  std::string hint;    ///< a way to fix it; may be empty

  /// Returns `file:line:column: warning CODE: kernel NAME: text`, then the hint on its own line.
  std::string str() const;
  friend bool operator==(const Warning&, const Warning&) = default;
};

/// Receives warnings.
using WarningHandler = std::function<void(const Warning&)>;

/// Installs the process's warning handler and returns the previous one. The handler is called once
/// for each warning of each kernel that the process compiles, or finds compiled on disk, at the
/// kernel's first call and on the thread that makes it. It may throw, and the call then throws.
/// Without a handler, the default, warnings about spilled registers (T1501) are written to the
/// standard error stream and others are dropped; TEGULA_WARN=1 writes all of them, TEGULA_WARN=0
/// none. `Kernel::warnings()` returns the warnings in any case.
WarningHandler set_warning_handler(WarningHandler handler);

}  // namespace tegula
