#pragma once
// Operands of products as TMA and the tensor cores take them.
#include "tegula/kernels/matmul.h"

namespace tegula::detail {

/// Whether copies of the tensor's matrices are what a product reads: TMA cannot bring them (rows
/// that do not begin at multiples of 16 bytes, no dimension without gaps), or the tensor cores
/// would need k contiguous and it is not (8 and 32 bits). `k_dim`: the contracted one.
bool needs_copy(const Tensor& operand, int k_dim);

/// Shape of a row-major tensor with rows padded to 16 bytes that has room for the copy.
Dims shape_of_copy(const Tensor& operand, int k_dim);

/// Copies into such a tensor; gives the view of it that has the operand's shape.
Tensor copy_operand(const Stream& stream, const Tensor& operand, int k_dim, const Tensor& memory);

}  // namespace tegula::detail
