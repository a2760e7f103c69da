#pragma once
// Registers that a plan leaves to a thread.
#include <algorithm>

#include "ir/plan.h"

namespace tegula::ir {

/// Where every warp has as many: each quarter of an SM holds a quarter of the warps, rounded up, in
/// 16384 registers.
inline int registers_at_entry(const Plan& plan) {
  const int warps_of_quarter = (plan.warps + plan.copy_warps + 3) / 4;
  return std::min(255, 16384 / (32 * warps_of_quarter) / 8 * 8);
}

/// Of a thread that computes.
inline int computing_registers(const Plan& plan) {
  return plan.registers != 0 ? plan.registers : registers_at_entry(plan);
}

}  // namespace tegula::ir
