#pragma once
// The process's handler of warnings, as those see it who find some.
#include <span>

#include "tegula/warning.h"

namespace tegula {

/// Hands them to the handler, or writes them where TEGULA_WARN asks for it and there is none.
void report_warnings(std::span<const Warning> warnings);

/// While it lives, this thread reports no warnings.
class WarningsMuted {
 public:
  WarningsMuted();
  ~WarningsMuted();
  WarningsMuted(const WarningsMuted&) = delete;
  WarningsMuted& operator=(const WarningsMuted&) = delete;
};

}  // namespace tegula
