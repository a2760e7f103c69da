#pragma once
#include <cstdint>
#include <source_location>
#include <span>
#include <vector>

#include "tegula/call_plan.h"
#include "tegula/kernels/call_place.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Tensor copies, for kernels that cannot read a tensor's layout. Memory-bound: each element is
/// read and written once.
namespace tegula::kernels {

/// to = from. Both have one shape and type, up to three dimensions and any strides (copying a
/// transposed view transposes). They must not overlap. Throws CompileError (T1660) for invalid
/// arguments.
void copy(const Stream& stream, const Tensor& from, const Tensor& to,
          Loc at = std::source_location::current());

/// A copy of one tensor: to = from.
struct TensorCopy {
  Tensor from, to;  ///< two tensors of one shape and type
};
/// Copies several tensors of one type, two per launch: launch overhead dominates small copies.
void copy(const Stream& stream, std::span<const TensorCopy> copies,
          Loc at = std::source_location::current());

/// Returns true if TMA can load tiles of a tensor of two or three dimensions: one of the last two
/// is contiguous, and all other strides and the address are multiples of 16 bytes.
bool is_tma_compatible(const Tensor& tensor);

/// Layout that a kernel requires of a tensor's last two dimensions.
enum class LayoutRequirement : std::uint8_t {
  any,             ///< nothing: the tensor is never copied
  tma_compatible,  ///< TMA can load it, with either dimension contiguous
  contiguous_dim,  ///< TMA can load it, contiguous along the named dimension
};

/// A tensor of two or three dimensions that a kernel reads.
struct RepackedOperand {
  const Tensor& tensor;  ///< must outlive this object
  int dim = -1;  ///< -1 or -2: dimension along which a copy is contiguous; tma_compatible keeps the
                 ///< other one if it already is
  /// Layouts that the kernel can read.
  LayoutRequirement requirement = LayoutRequirement::tma_compatible;

  /// Returns true if the kernel has to read a repacked copy.
  bool needs_repack() const;
  /// Returns the distance in bytes between rows (or columns) of the tensor or of its copy.
  std::int64_t pitch_bytes() const;
};

/// An operand and its slot in a plan.
struct OperandSlot {
  PlanSlot slot;            ///< argument of the plan
  RepackedOperand operand;  ///< refers to the tensor of the slot
};

/// Returns slots of the operands, of one type, in layouts that a kernel can read: operands without
/// the required layout are repacked by launches of the plan, into scratch memory with rows padded
/// to 128 bytes. The repacking kernels let the next kernel start before they end.
std::vector<PlanSlot> repack(PlanBuilder& plan, const std::vector<OperandSlot>& operands);

}  // namespace tegula::kernels
