#pragma once
#include <functional>
#include <string>

#include "tegula/location.h"

/// A warning: the kernel runs, but not as its author may think: registers that spill, products that
/// miss the fast instruction.
namespace tegula {

/// One warning about a compiled kernel, or about the tuner's results.
struct Warning {
  std::string code;    ///< stable, e.g. "T1501"
  std::string kernel;  ///< its name; empty where the warning is about none
  Loc place;           ///< the line it is about, else that of the kernel
  std::string text;
  std::string hint;  ///< a way to mend it; may be empty

  /// `file:line:column: warning CODE: kernel NAME: text`, then the hint in a line of its own.
  std::string str() const;
  friend bool operator==(const Warning&, const Warning&) = default;
};

using WarningHandler = std::function<void(const Warning&)>;

/// The process's handler from now on; the one before is returned. It is called once for each
/// warning of each kernel that the process compiles, or finds compiled on disk, by the thread that
/// needs the kernel, at the kernel's first call; it may throw, and the call throws then. An empty
/// handler, the default, drops warnings, but for TEGULA_WARN=1, which writes them to the standard
/// error stream. Unasked, the library prints only what kernels `print`. `Kernel::warnings()` has
/// them in any case.
WarningHandler set_warning_handler(WarningHandler handler);

}  // namespace tegula
