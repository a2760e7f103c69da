#pragma once
#include <cstdint>
#include <source_location>
#include <span>
#include <vector>

#include "tegula/call_plan.h"
#include "tegula/kernels/call_place.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Copies of tensors, for kernels that cannot read their layout. Memory-bound: every element is
/// read and written once.
namespace tegula {

/// to = from: of one shape and type, up to three dimensions, any strides (a transposed tensor gives
/// a transposition). The two must not overlap. Throws CompileError for what does not fit.
void copy(const Stream& stream, const Tensor& from, const Tensor& to,
          Loc at = std::source_location::current());

struct TensorCopy {
  Tensor from, to;
};
/// Several copies of one type, two in a launch: the launch is most of a small copy's time.
void copy(const Stream& stream, std::span<const TensorCopy> copies,
          Loc at = std::source_location::current());

/// Whether TMA can load tiles of a tensor of two or three dimensions: one of the last two is
/// contiguous, and all other strides and the address are multiples of 16 bytes.
bool is_tma_compatible(const Tensor& tensor);

/// Layout that a kernel requires of a tensor's last two dimensions.
enum class LayoutRequirement : std::uint8_t {
  any,             ///< nothing: the tensor is never copied
  tma_compatible,  ///< TMA can load it, with either dimension contiguous
  contiguous_dim,  ///< TMA can load it, contiguous along the named dimension
};

/// A tensor of two or three dimensions that a kernel reads.
struct RepackedOperand {
  const Tensor& tensor;
  int dim = -1;  ///< -1 or -2: along which a copy is contiguous; tma_compatible keeps the other one
                 ///< if it is
  LayoutRequirement requirement = LayoutRequirement::tma_compatible;

  /// Whether the kernel has to read a repacked copy.
  bool needs_repack() const;
  /// Bytes from one row (or column) of the tensor or its copy to the next.
  std::int64_t pitch_bytes() const;
};

/// An operand among the slots of a plan.
struct OperandSlot {
  PlanSlot slot;
  RepackedOperand operand;  ///< its tensor is the slot's
};

/// The operands, of one type, as a kernel can read them: those without the required layout are
/// repacked by launches of the plan, into scratch memory with rows padded to 128 bytes. The kernels
/// that repack let the next one start before they end.
std::vector<PlanSlot> repack(PlanBuilder& plan, const std::vector<OperandSlot>& operands);

}  // namespace tegula
