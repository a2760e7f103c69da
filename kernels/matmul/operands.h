#pragma once
// Operands of products as TMA and the tensor cores take them.
#include <vector>

#include "tegula/kernels/matmul.h"

namespace tegula::detail {

/// Whether copies of the tensor's matrices are what a product reads: TMA cannot bring them (rows
/// that do not begin at multiples of 16 bytes, no dimension without gaps), or the tensor cores
/// would need k contiguous and it is not (8 and 32 bits). `k_dim`: the contracted one.
bool needs_copy(const Tensor& operand, int k_dim);

/// Rows (or columns), of the tensor or its copy, begin at multiples of 128 bytes: a row of a box is
/// then one line of the L2, else it is two.
bool has_whole_lines(const Tensor& operand, int k_dim);

/// Shape of a row-major tensor with rows padded to 128 bytes that has room for the copy.
Dims shape_of_copy(const Tensor& operand, int k_dim);

/// From and to, with a batch dimension.
struct OperandCopy {
  Tensor from, to;
};
/// Of the operand into such a tensor: `to` is the part of it that is as large as the operand.
OperandCopy copy_of(const Tensor& operand, int k_dim, const Tensor& memory);

/// Of operands of one type.
void copy_operands(const Stream& stream, std::vector<OperandCopy> copies);

}  // namespace tegula::detail
