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
  /// wgmma reads it from shared memory with either dimension contiguous, else with k.
  constexpr bool any_major() const { return bits == 16; }
  /// wgmma has this many columns.
  constexpr bool has_columns(std::int64_t n) const {
    return n <= 256 && n % (sum == DType::i32 && n > 32 ? 16 : 8) == 0;
  }
};

/// Matrix type for operands of this type, f32 rounded to tf32; null if there is none.
const MatrixType* matrix_type_of(DType operand);

/// Matrix type that the target's tensor cores use for a dot; null if it is left to FMA.
const MatrixType* matrix_type(const Kernel& k, const OpData& dot);

}  // namespace tegula::ir
