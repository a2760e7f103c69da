#pragma once
// Counts bank conflicts of accesses to shared memory.

#include <span>

#include "ir/layout/matrix_access.h"
#include "ir/layout/shared_layout.h"
#include "ir/layout/thread_fn.h"

namespace tegula::ir {

/// Wavefront counts of a simple model: 32 banks of 4 bytes; an instruction with 16 (8) bytes per
/// lane is served in phases of 8 (16) consecutive lanes, narrower ones in one phase, ldmatrix and
/// stmatrix in phases of the 8 rows of a matrix. A phase takes one wavefront for each distinct word
/// of the bank that has the most. Lanes that access the same word share it.
struct BankUse {
  int instructions = 0;  ///< total instructions of all warps
  int wavefronts = 0;
  int phases = 0;
  /// Returns the number of wavefronts lost to conflicts.
  int extra() const { return wavefronts - phases; }
  BankUse& operator+=(const BankUse& other);
  friend bool operator==(const BankUse&, const BankUse&) = default;
};

/// Counts one instruction of a warp, given the byte addresses of its 32 lanes.
BankUse bank_use(std::span<const std::int64_t> lane_addresses, int bytes_per_lane);

/// Counts the loads or stores of all registers of `dist` by all warps, with the widest vectors of
/// at most `max_bytes`.
Result<BankUse> bank_use(const SharedLayout& shared, const LinearLayout& dist, int max_bytes = 16);

/// Counts the same accesses by ldmatrix or stmatrix.
BankUse bank_use(const LinearLayout& dist, const MatrixPlan& plan);

}  // namespace tegula::ir
