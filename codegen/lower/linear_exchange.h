#pragma once
// Tiles that change threads by the row-major numbers of their elements, through shared memory.
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Registers of layout `to` that hold what `v` holds in layout `from`: elements keep their
/// row-major numbers, so the shapes may differ where the numbers of elements are equal. It takes
/// any two layouts, also those whose bits and digits no other exchange can follow.
ir::Value through_linear_memory(Lowering& l, ir::Value v, const ir::LinearLayout& from,
                                const ir::LinearLayout& to);

/// A tile that is a part of a larger one.
struct TilePart {
  ir::Value registers;
  const ir::LinearLayout* layout;
  ir::Dims offset;
};
/// Registers of layout `to`, which is the box at `offset` of the tile of shape `whole` that the
/// parts make up.
ir::Value assembled_in_memory(Lowering& l, std::span<const TilePart> parts, const ir::Dims& whole,
                              const ir::LinearLayout& to, const ir::Dims& offset);

/// Bytes of a tile in linear memory.
std::int64_t linear_bytes(Lowering& l, const ir::Dims& shape, ir::Value stored);
/// Lays down what as_stored made of a tile, row-major from `base`, one replica of each element.
void write_linear(Lowering& l, ir::Value base, const ir::LinearLayout& layout, ir::Value stored);

/// Addresses of the elements that a thread's registers hold in the linear memory of a tile of shape
/// `whole`, in which they are the box at `offset`.
struct LinearAddresses {
  ir::Value addresses;     ///< i32, one a register
  ir::Value are_elements;  ///< of registers that do not pad the layout; none: all are elements
  /// The index along dimension `but_axis` is left to the caller.
  LinearAddresses(Lowering& l, ir::Value base, const ir::LinearLayout& layout,
                  const ir::Dims& whole, const ir::Dims& offset, int bytes, int but_axis = -1);
};
/// Bytes from one element to the next along `axis`.
std::int64_t linear_stride(const ir::Dims& whole, int axis, int bytes);
/// The index of each register's element along `dim`, also if a thread's bits and a register's
/// overlap.
ir::Value index_along(Lowering& l, const ir::LinearLayout& layout, int dim);

/// i1 has no place in memory of its own and travels as a byte, a pointer as its bits.
ir::Value as_stored(Lowering& l, ir::Value v);
/// Registers that as_stored made, as `elem` again.
ir::Value as_before(Lowering& l, ir::Value stored, ir::Elem elem);

}  // namespace tegula::codegen
