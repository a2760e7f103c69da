#pragma once
// Boxes of views that the kernel makes, in which an access to several elements (a piece) may cross
// the end of the view. They are accessed by address: each piece is checked, and is moved element by
// element if it is cut.
#include "ir/builder.h"

namespace tegula::ir {

/// Returns true if pieces of the box may be cut. Boxes of parameters have no cut pieces: the
/// signature specifies whether extents are multiples of a piece.
bool has_cut_pieces(const Kernel& k, OpId box);
/// Returns the attributes of the same access through pointers.
AttrList attrs_by_address(const Kernel& k, OpId box);
/// Inserts a load by address before a load_view and returns its result, which is 0 outside of the
/// view.
Value load_in_pieces(Kernel& k, OpId load);

}  // namespace tegula::ir
