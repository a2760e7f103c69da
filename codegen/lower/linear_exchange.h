#pragma once
// Tiles that change threads by the row-major numbers of their elements, through shared memory.
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Registers of layout `to` that hold what `v` holds in layout `from`: elements keep their
/// row-major numbers, so the shapes may differ where the numbers of elements are equal. It takes
/// any two layouts, also those whose bits and digits no other exchange can follow.
ir::Value through_linear_memory(Lowering& l, ir::Value v, const ir::LinearLayout& from,
                                const ir::LinearLayout& to);

/// i1 has no place in memory of its own and travels as a byte, a pointer as its bits.
ir::Value as_stored(Lowering& l, ir::Value v);
/// Registers that as_stored made, as `elem` again.
ir::Value as_before(Lowering& l, ir::Value stored, ir::Elem elem);

}  // namespace tegula::codegen
