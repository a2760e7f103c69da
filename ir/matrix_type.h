#pragma once
// The element types that tensor cores multiply, one row each.
#include <string_view>

#include "ir/kernel.h"

namespace tegula::ir {

/// PTX ISA, "mma" and "wgmma": one instruction takes 32 bytes of each row of A and column of B.
struct MatrixType {
  std::string_view name;  ///< value of attrs a_type and b_type
  int bits;               ///< bits of an element
  DType sum;              ///< type of the accumulator

  constexpr int step() const { return 256 / bits; }  ///< k of one instruction
  /// Returns true if wgmma reads it from shared memory with either dimension contiguous, false if k
  /// must be contiguous.
  constexpr bool any_major() const { return bits == 16; }
  /// Returns true if wgmma supports this many columns.
  constexpr bool has_columns(std::int64_t n) const {
    return n <= 256 && n % (sum == DType::i32 && n > 32 ? 16 : 8) == 0;
  }
};

/// Returns the matrix type for operands of this type, f32 rounded to tf32; null if there is none.
const MatrixType* matrix_type_of(DType operand);

/// Returns the matrix type with which the target's tensor cores compute a dot; null for FMA.
const MatrixType* matrix_type(const Kernel& k, const OpData& dot);

}  // namespace tegula::ir
