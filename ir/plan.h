#pragma once
// The decisions that the passes of the machine form execute, as a value. The pass `plan` makes a
// plan from the traced kernel; it can be printed, edited and passed in again.
#include <cstdint>
#include <string>

#include "ir/target.h"
#include "tegula/plan_patch.h"

namespace tegula::ir {

/// ir/plan.def describes the fields.
struct Plan {
#define PLAN_FIELD(type, name, fallback, doc) type name = fallback;
#include "ir/plan.def"
#undef PLAN_FIELD

  /// Returns the number of warp groups that compute different tiles: 2 for ping-pong, else 1.
  int groups() const { return pingpong ? 2 : 1; }
  /// Returns the number of consumer warps of the CTA.
  int consumer_warps() const { return num_warps * groups(); }
  /// Returns the registers available to a thread if all warps have the same number.
  int registers_at_entry(const TargetRow& target) const {
    return target.registers_at_entry(consumer_warps() + producer_warps);
  }
  /// Returns the registers of a consumer thread.
  int registers_per_consumer(const TargetRow& target) const {
    return consumer_registers != 0 ? consumer_registers : registers_at_entry(target);
  }
  /// Returns the registers that a producer thread keeps if consumer threads take
  /// `consumer_registers` of all registers that the CTA has at entry. setmaxnreg would wait forever
  /// for more.
  int producer_registers(const TargetRow& target) const;

  /// Makes each tile end before the next one begins; stationary operands then have one slot.
  void disable_epilogue_overlap() {
    overlap_epilogue = false;
    once_stages = 1;
    late_stages = 0;
  }

  std::string str() const;
  /// Sets the fields that the patch contains.
  void apply(const PlanPatch& patch);
  /// Returns the first field of the patch that the plan lacks, as "name=value"; "" if it has all.
  std::string first_mismatch(const PlanPatch& patch) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace tegula::ir
