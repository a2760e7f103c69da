#pragma once
// Tensor copies as launches of a plan.
#include <span>

#include "tegula/call_plan.h"

namespace tegula::kernels {

struct SlotCopy {
  PlanSlot from, to;
};
/// Copies tensors of one type, two per launch.
void plan_copies(PlanBuilder& plan, std::span<const SlotCopy> copies);

}  // namespace tegula::kernels
