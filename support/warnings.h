#pragma once
// Reports warnings to the process's warning handler.
#include <span>

#include "tegula/warning.h"

namespace tegula {

/// Passes the warnings to the handler; without one, writes those that TEGULA_WARN selects to
/// stderr.
void report_warnings(std::span<const Warning> warnings);

/// Suppresses the warnings that this thread reports during the object's lifetime.
class WarningsMuted {
 public:
  WarningsMuted();
  ~WarningsMuted();
  WarningsMuted(const WarningsMuted&) = delete;
  WarningsMuted& operator=(const WarningsMuted&) = delete;
};
/// Returns true if this thread reports no warnings.
bool warnings_are_muted();

}  // namespace tegula
