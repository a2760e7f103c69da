#pragma once
// Sorts long lines in shared memory.
#include "codegen/lower/sort_key.h"
#include "ir/layout/linear_layout.h"

namespace tegula::codegen {

/// Returns the keys of the first elements along `axis` in the registers of `result`. `keys`: those
/// of the elements in `layout`, padding included. Throws CompileError if they do not fit the
/// target's shared memory.
Tuple sorted_in_memory(Lowering& l, SortKey& key, const ir::LinearLayout& layout, int axis,
                       const Tuple& keys, const ir::LinearLayout& result);

}  // namespace tegula::codegen
