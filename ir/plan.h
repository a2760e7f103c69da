#pragma once
// The schedule as a value: what the passes of the machine form carry out. A plan is made by the
// pass `plan` from the traced kernel, and may be printed, edited and given back.
#include <cstdint>
#include <string>

#include "ir/target.h"
#include "tegula/plan_patch.h"

namespace tegula::ir {

/// Fields and their meaning: ir/plan.def.
struct Plan {
#define PLAN_FIELD(type, name, fallback, doc) type name = fallback;
#include "ir/plan.def"
#undef PLAN_FIELD

  /// Warpgroups that compute a tile each (ping-pong); one if all warps compute a tile together.
  int groups() const { return pingpong ? 2 : 1; }
  /// Consumer warps of the CTA.
  int consumer_warps() const { return num_warps * groups(); }
  /// Registers a thread can have where every warp has as many.
  int registers_at_entry(const TargetRow& target) const {
    return target.registers_at_entry(consumer_warps() + producer_warps);
  }
  /// Registers of a consumer thread.
  int registers_per_consumer(const TargetRow& target) const {
    return consumer_registers != 0 ? consumer_registers : registers_at_entry(target);
  }
  /// Registers that a producer thread keeps if consumer threads take over `consumer_registers` of
  /// all that the CTA has at its entry. setmaxnreg waits for ever for more than that.
  int producer_registers(const TargetRow& target) const;

  /// Each tile ends before the next one begins; stationary operands have one slot.
  void disable_epilogue_overlap() {
    overlap_epilogue = false;
    once_stages = 1;
    late_stages = 0;
  }

  std::string str() const;
  /// Sets the fields that the patch has.
  void apply(const PlanPatch& patch);
  /// The first field of the patch that the plan does not have, as "name=value"; empty: it has all.
  std::string first_mismatch(const PlanPatch& patch) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace tegula::ir
