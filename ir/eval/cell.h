#pragma once
// How the executors hold one element, and the scalar meaning of the elementwise ops. The tile
// interpreter and the simulator both call these functions, so the two can differ only in data
// movement.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/kernel.h"

namespace tegula::ir {

/// One element. Integers, i1 and pointers (addresses) are held in `i`, wrapped to their width
/// (unsigned types zero-extended, signed ones sign-extended); every float is held in `f` with a
/// value its dtype can represent.
union Cell {
  std::int64_t i;
  double f;
};

/// One elementwise op over `count` elements.
struct ElementwiseCall {
  const AttrList& attrs;
  std::span<const Elem> in;  ///< element of each operand
  Elem out;
  std::span<const Cell* const> operands;
  std::span<const std::size_t> strides;  ///< 1, or 0 for a scalar operand that is broadcast
  Cell* result;
  std::size_t count;
  std::uint8_t* poison =
      nullptr;  ///< where given, set to 1 for an element that came out as poison (x / 0)
};
using ElementwiseFn = void (*)(const ElementwiseCall&);

/// The meaning of an op of family Elementwise or Math; null for any other op.
ElementwiseFn elementwise_fn(Opcode op);

/// Rounds or wraps a value to what `dtype` can hold (round to nearest even; integers wrap).
Cell canonical(Cell value, DType dtype);
/// A comparison in the language's words: "50 < 10".
std::string comparison(std::string_view pred, DType dtype, Cell a, Cell b);
/// The bits of an element in memory, and back.
std::uint64_t to_bits(Cell value, DType dtype);
Cell from_bits(std::uint64_t bits, DType dtype);

}  // namespace tegula::ir
