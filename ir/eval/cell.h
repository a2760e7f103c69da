#pragma once
// The executors' representation of one element, and the semantics of the elementwise ops. The tile
// interpreter and the simulator both call these functions, so the two can differ only in data
// movement.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/kernel.h"

namespace tegula::ir {

/// One element. Integers, i1 and pointers (addresses) are stored in `i`, wrapped to their width
/// (unsigned types zero-extended, signed ones sign-extended); every float is stored in `f` with a
/// value that its dtype can represent.
union Cell {
  std::int64_t i;
  double f;
};

/// Arguments of one elementwise op over `count` elements.
struct ElementwiseCall {
  const AttrList& attrs;
  std::span<const Elem> in;  ///< element of each operand
  Elem out;
  std::span<const Cell* const> operands;
  std::span<const std::size_t> strides;  ///< 1, or 0 for a scalar operand that is broadcast
  Cell* result;
  std::size_t count;
  std::uint8_t* poison =
      nullptr;  ///< if not null, set to 1 for each element whose result is poison (x / 0)
};
using ElementwiseFn = void (*)(const ElementwiseCall&);

/// Returns the function of an op of family Elementwise or Math, or null for any other op.
ElementwiseFn elementwise_fn(Opcode op);

/// Rounds or wraps a value to one that `dtype` can represent (round to nearest even; integers
/// wrap).
Cell canonical(Cell value, DType dtype);
/// Returns the text of a comparison in the language's notation: "50 < 10".
std::string comparison(std::string_view pred, DType dtype, Cell a, Cell b);
/// Converts an element to its bits in memory, and back.
std::uint64_t to_bits(Cell value, DType dtype);
Cell from_bits(std::uint64_t bits, DType dtype);

}  // namespace tegula::ir
