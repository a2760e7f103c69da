#pragma once
// Boxes of views that TMA moves.
#include <span>

#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Returns the view dimensions, innermost first: the contiguous one (tile dimension `fast`), the
/// tile's others, then the rest.
ir::Ints map_order(std::span<const std::int64_t> axes, std::int64_t view_rank, int fast);

/// Lowers a store_view with attr tma, or a reduction if it combines, through the buffer that
/// StoreStaging assigned.
void store_by_tma(Lowering& l, ir::OpId store);
/// Waits until TMA stores have read shared memory, which must outlive the reads.
void await_tma_stores(Lowering& l);

}  // namespace tegula::codegen
