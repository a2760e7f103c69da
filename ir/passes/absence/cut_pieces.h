#pragma once
// Boxes of views that the kernel makes, whose pieces of several elements may reach over the view's
// end. They are accessed by address, where each piece is looked at and moves element by element if
// it is cut.
#include "ir/builder.h"

namespace tegula::ir {

/// None of a parameter's view has: its signature says whether extents are whole pieces.
bool has_cut_pieces(const Kernel& k, OpId box);
/// Attributes of the same access through pointers.
AttrList attrs_by_address(const Kernel& k, OpId box);
/// The elements of a load_view by their addresses, 0 outside of the view; stands in front of it.
Value load_in_pieces(Kernel& k, OpId load);

}  // namespace tegula::ir
