#pragma once
// Counts bank conflicts of accesses to shared memory.

#include <span>

#include "ir/layout/matrix_access.h"
#include "ir/layout/shared_layout.h"
#include "ir/layout/thread_fn.h"

namespace tegula::ir {

/// Model: 32 banks of 4 bytes; an instruction of 16 (8) bytes a lane is served in phases of 8 (16)
/// consecutive lanes, narrower ones in one phase, ldmatrix and stmatrix in phases of the 8 rows of
/// a matrix; a phase takes as many wavefronts as the fullest bank has different words. Lanes on one
/// word share it.
struct BankUse {
  int instructions = 0;  ///< instructions of all warps together
  int wavefronts = 0;
  int phases = 0;
  /// Wavefronts lost to conflicts.
  int extra() const { return wavefronts - phases; }
  BankUse& operator+=(const BankUse& other);
  friend bool operator==(const BankUse&, const BankUse&) = default;
};

/// One instruction of a warp, given the 32 lanes' byte addresses.
BankUse bank_use(std::span<const std::int64_t> lane_addresses, int bytes_per_lane);

/// Loading or storing all registers of `dist` by the widest vectors of at most `max_bytes`; all
/// warps.
Result<BankUse> bank_use(const SharedLayout& shared, const LinearLayout& dist, int max_bytes = 16);

/// The same by ldmatrix or stmatrix.
BankUse bank_use(const LinearLayout& dist, const MatrixPlan& plan);

}  // namespace tegula::ir
