#pragma once
// Reads that may be repeated anywhere: one element of a tensor that the kernel only reads.
#include "ir/kernel.h"

namespace tegula::ir {

/// True for a load_view of a scalar of a view with access In. Nobody writes the element while the
/// kernel runs (the launch refuses overlapping tensors), so it has the same value in an earlier
/// iteration and in another warp; with an index outside of the view it is 0.
bool is_invariant_scalar_load(const Kernel& k, OpId op);

/// True for a load through addresses in a view with access In, of any shape.
bool is_invariant_load(const Kernel& k, OpId op);

/// True for a masked load of a row or column through addresses in a view with access In: it has the
/// same values in front of a loop that computes none of its operands.
bool is_invariant_row_load(const Kernel& k, OpId op);

}  // namespace tegula::ir
