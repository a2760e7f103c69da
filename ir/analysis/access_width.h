#pragma once
// How wide one memory access of a box may be.
#include "ir/kernel.h"

namespace tegula::ir {

/// The tile dimension that runs along the view's unit-stride dimension; -1 where none does, or an
/// index tile selects the elements there.
int contiguous_dim(const Kernel& k, const OpData& box);

/// Elements of a piece along that dimension: divides the alignment of base, strides and offset, and
/// the box's extent. The end of the view may cut it. `box` is a load_view, store_view or
/// copy_async.
int piece_elements(const Kernel& k, const OpData& box);

/// Elements that one access may cover along that dimension: those of a piece, so many that no bound
/// which is still guarded cuts an access.
int access_elements(const Kernel& k, const OpData& box);

}  // namespace tegula::ir
