#pragma once
// Exchanges tiles between threads through shared memory, by the row-major numbers of their
// elements.
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Returns the elements of `v`, which has layout `from`, as registers of layout `to`. Elements keep
/// their row-major numbers, so the shapes may differ if their sizes are equal. Supports any two
/// layouts, including those that no other exchange supports.
ir::Value through_linear_memory(Lowering& l, ir::Value v, const ir::LinearLayout& from,
                                const ir::LinearLayout& to);

/// A tile that is a box of a larger tile.
struct TilePart {
  ir::Value registers;
  const ir::LinearLayout* layout;
  ir::Dims offset;
};
/// Returns registers of layout `to`: the box at `offset` of the tile of shape `whole` that the
/// parts make up.
ir::Value assembled_in_memory(Lowering& l, std::span<const TilePart> parts, const ir::Dims& whole,
                              const ir::LinearLayout& to, const ir::Dims& offset);

/// Returns the number of bytes of a tile in linear memory.
std::int64_t linear_bytes(Lowering& l, const ir::Dims& shape, ir::Value stored);
/// Writes a tile converted by as_stored, row-major from `base`, one replica of each element.
void write_linear(Lowering& l, ir::Value base, const ir::LinearLayout& layout, ir::Value stored);

/// Addresses of the elements in a thread's registers. The elements are the box at `offset` of a
/// tile of shape `whole` in linear memory.
struct LinearAddresses {
  ir::Value addresses;     ///< i32, one per register
  ir::Value are_elements;  ///< true in registers that are not padding; none: all are elements
  /// The caller adds the index along dimension `but_axis`.
  LinearAddresses(Lowering& l, ir::Value base, const ir::LinearLayout& layout,
                  const ir::Dims& whole, const ir::Dims& offset, int bytes, int but_axis = -1);
};
/// Returns the number of bytes from one element to the next along `axis`.
std::int64_t linear_stride(const ir::Dims& whole, int axis, int bytes);
/// Returns the index of each register's element along `dim`, even if thread bits and register bits
/// overlap.
ir::Value index_along(Lowering& l, const ir::LinearLayout& layout, int dim);

/// Converts registers for memory: i1 becomes a byte, a pointer becomes its bits.
ir::Value as_stored(Lowering& l, ir::Value v);
/// Converts registers from as_stored back to `elem`.
ir::Value as_before(Lowering& l, ir::Value stored, ir::Elem elem);

}  // namespace tegula::codegen
