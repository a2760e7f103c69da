// Repacks tensors that a kernel cannot read in their layout.
#include "kernels/copy/copy_slots.h"
#include "tegula/int_math.h"
#include "tegula/kernels/copy.h"

namespace tegula::kernels {
namespace {

constexpr std::int64_t kGranule = 16, kLine = 128;

int other_of(int dim) { return dim == -1 ? -2 : -1; }

/// Returns the dimension along which the copy is contiguous.
int dim_of_copy(const RepackedOperand& o) {
  const int other = other_of(o.dim);
  return o.requirement == LayoutRequirement::tma_compatible && o.tensor.stride(other) == 1 ? other
                                                                                           : o.dim;
}

/// Returns the shape of a row-major tensor that can hold the copy.
Dims shape_of_copy(const RepackedOperand& o) {
  const Tensor& t = o.tensor;
  const int inner = dim_of_copy(o);
  const std::int64_t line = kLine / size_bytes(t.dtype());
  return {t.rank() == 3 ? t.size(0) : 1, t.size(other_of(inner)), round_up(t.size(inner), line)};
}

/// Returns the part of such a tensor that has the extents of the operand.
Tensor place_of_copy(const RepackedOperand& o, const Tensor& memory) {
  const int inner = dim_of_copy(o);
  Tensor place = memory.slice(-1, 0, o.tensor.size(inner));
  if (inner == -2) place = place.transpose(-1, -2);
  return o.tensor.rank() == 3 ? place : place.select(0, 0);
}

}  // namespace

bool is_tma_compatible(const Tensor& t) {
  if (reinterpret_cast<std::uintptr_t>(t.data()) % kGranule != 0) return false;
  const int last = t.rank() - 1;
  bool fits =
      t.stride(last) == 1 || t.stride(last - 1) == 1 || t.size(last) <= 1 || t.size(last - 1) <= 1;
  for (int d = 0; d <= last; ++d)
    fits = fits && (t.size(d) <= 1 || t.stride(d) == 1 ||
                    (t.stride(d) >= 0 && t.stride(d) * size_bytes(t.dtype()) % kGranule == 0));
  return fits;
}

bool RepackedOperand::needs_repack() const {
  if (requirement == LayoutRequirement::any || tensor.numel() == 0) return false;
  if (!is_tma_compatible(tensor)) return true;
  return requirement == LayoutRequirement::contiguous_dim && tensor.stride(dim) != 1 &&
         tensor.size(dim) > 1;
}

std::int64_t RepackedOperand::pitch_bytes() const {
  if (needs_repack()) return kLine;
  const std::int64_t pitch = tensor.stride(-1) == 1 ? tensor.stride(-2) : tensor.stride(-1);
  return pitch * size_bytes(tensor.dtype());
}

std::vector<PlanSlot> repack(PlanBuilder& plan, const std::vector<OperandSlot>& operands) {
  std::vector<PlanSlot> read;
  std::vector<SlotCopy> copies;
  for (const auto& [slot, operand] : operands) {
    read.push_back(slot);
    if (!operand.needs_repack()) continue;
    const PlanSlot memory = plan.scratch(shape_of_copy(operand), operand.tensor.dtype());
    const Tensor place = place_of_copy(operand, plan.tensor(memory));
    read.back() =
        plan.view(memory, [shape = place.shape(), strides = place.strides()](const Tensor& t) {
          return Tensor::borrow(t.data(), shape, t.dtype(), t.device(), strides);
        });
    copies.push_back({slot, read.back()});
  }
  plan_copies(plan, copies);
  return read;
}

}  // namespace tegula::kernels
