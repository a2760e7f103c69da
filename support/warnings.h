#pragma once
// The process's warning handler, for the code that finds warnings.
#include <span>

#include "tegula/warning.h"

namespace tegula {

/// Passes the warnings to the handler; without one, writes them to stderr if TEGULA_WARN is set.
void report_warnings(std::span<const Warning> warnings);

/// Suppresses the warnings that this thread reports during the object's lifetime.
class WarningsMuted {
 public:
  WarningsMuted();
  ~WarningsMuted();
  WarningsMuted(const WarningsMuted&) = delete;
  WarningsMuted& operator=(const WarningsMuted&) = delete;
};

}  // namespace tegula
