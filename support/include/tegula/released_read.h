#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "tegula/error.h"

namespace tegula {

/// Thrown on `cpu` and `sim` by a kernel that has read memory which the host has released (T1693 is
/// among the diagnostics; tegula/poison.h).
class ReleasedRead : public ProgramError {
 public:
  /// `address`: that of the first released element that was read.
  ReleasedRead(std::vector<Diagnostic> all, std::uintptr_t address)
      : ProgramError(std::move(all)), address_(address) {}
  /// Returns the address of the first released element that was read.
  std::uintptr_t address() const { return address_; }

 private:
  std::uintptr_t address_;
};

}  // namespace tegula
