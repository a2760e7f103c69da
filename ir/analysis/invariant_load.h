#pragma once
// Loads that may be repeated anywhere because the kernel only reads the tensor.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true for a load_view of one scalar from a view with access In. The element does not
/// change while the kernel runs (the launch rejects overlapping tensors), so it has the same value
/// in an earlier iteration and in another warp. With an index outside the view the result is 0.
bool is_invariant_scalar_load(const Kernel& k, OpId op);

/// Returns the view that a load_view reads, or from which all addresses of a load come; null if it
/// is not known, and for other ops.
Value loaded_view(const Kernel& k, OpId op);

/// Returns true for a load of any shape from a view with access In, also through addresses.
bool is_invariant_load(const Kernel& k, OpId op);

/// Returns true for a masked load of a row or column through addresses in a view with access In: it
/// yields the same values before a loop that computes none of its operands.
bool is_invariant_row_load(const Kernel& k, OpId op);

}  // namespace tegula::ir
