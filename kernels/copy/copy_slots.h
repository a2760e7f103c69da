#pragma once
// Copies as launches of a plan.
#include <span>

#include "tegula/call_plan.h"

namespace tegula {

struct SlotCopy {
  PlanSlot from, to;
};
/// Several copies of tensors of one type, two in a launch.
void plan_copies(PlanBuilder& plan, std::span<const SlotCopy> copies);

}  // namespace tegula
