#pragma once
// Computes the width of the memory accesses to a box.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the tile dimension that runs along the view's unit-stride dimension, or -1 if there is
/// none or an index tile selects the elements there.
int contiguous_dim(const Kernel& k, const OpData& box);

/// Returns the number of elements of a piece along that dimension. It divides the alignment of the
/// base, the strides and the offset, and the extent of the box. The end of the view may cut a
/// piece. `box` is a load_view, store_view or copy_async.
int piece_elements(const Kernel& k, const OpData& box);

/// Returns the number of elements that one access may cover along that dimension: a divisor of
/// piece_elements() such that no bound that is still guarded cuts an access.
int access_elements(const Kernel& k, const OpData& box);

}  // namespace tegula::ir
