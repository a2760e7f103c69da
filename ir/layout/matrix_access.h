#pragma once
// Legality and addressing of ldmatrix and stmatrix, derived from a shared and a distributed layout.

#include <vector>

#include "ir/layout/shared_layout.h"
#include "ir/layout/thread_fn.h"

namespace tegula::ir {

/// Plan for loading (storing) all registers of a distributed layout as 8x8 matrices of 16-byte
/// rows. Lane l supplies the address of row l & 7 of matrix l >> 3, which is rows[slab](l, warp,
/// block) combined with the access's base as in SharedFn. 32-bit register i of lane l then holds
/// bytes 4 (l & 3) .. +3 of row l >> 2 of matrix i (transposed, 16-bit only: elements l >> 2 of
/// rows 2 (l & 3) and +1).
struct MatrixPlan {
  bool transposed = false;
  int matrices = 1;  ///< .x1, .x2 or .x4, the same for every access
  std::vector<ThreadOffset> rows;
  struct Access {
    int slab = 0;
    RegisterOffset base;
    /// Element registers, matrix by matrix, in order within each 32-bit register.
    std::vector<int> registers;
  };
  std::vector<Access> accesses;

  /// Returns the byte address of the row supplied by `thread` (its lane selects row and matrix).
  std::int64_t row_address(const Access& access, const HardwareCoord& thread) const;
};

/// Returns a plan for both directions. Refused, with a reason, if the bits do not fit; plain
/// vectors then work.
Result<MatrixPlan> matrix_plan(const SharedLayout& shared, const LinearLayout& dist,
                               bool transposed);
/// Returns the untransposed plan if it is legal, else the transposed one.
Result<MatrixPlan> ldmatrix_plan(const SharedLayout& shared, const LinearLayout& dist);

}  // namespace tegula::ir
