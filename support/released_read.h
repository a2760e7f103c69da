#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "tegula/error.h"

namespace tegula {

/// A kernel has read memory that the host released (T1693 is among the diagnostics).
class ReleasedRead : public ProgramError {
 public:
  ReleasedRead(std::vector<Diagnostic> all, std::uintptr_t address)
      : ProgramError(std::move(all)), address_(address) {}
  /// Returns the address of the first released element that was read.
  std::uintptr_t address() const { return address_; }

 private:
  std::uintptr_t address_;
};

}  // namespace tegula
