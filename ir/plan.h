#pragma once
// The schedule as a value: what the passes of the machine form carry out. A plan is made by the
// pass `plan` from the traced kernel, and may be printed, edited and given back.
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/target.h"

namespace tegula::ir {

/// Fields and their meaning: ir/plan.def.
struct Plan {
#define PLAN_FIELD(type, name, fallback, doc) type name = fallback;
#include "ir/plan.def"
#undef PLAN_FIELD

  /// Warpgroups that take tiles in turn; one where all warps compute a tile together.
  int groups() const { return alternate ? 2 : 1; }
  /// Of the CTA.
  int computing_warps() const { return warps * groups(); }
  /// Registers a thread can have where every warp has as many.
  int registers_at_entry(const TargetRow& target) const {
    return target.registers_at_entry(computing_warps() + copy_warps);
  }
  /// What a thread that computes has.
  int computing_registers(const TargetRow& target) const {
    return registers != 0 ? registers : registers_at_entry(target);
  }
  /// What a copying thread keeps where those that compute take over `registers` of all that the
  /// CTA has at its entry. setmaxnreg waits for ever for more than that.
  int copy_registers(const TargetRow& target) const;

  /// Each tile ends before the next one begins; what is brought once has one slot.
  void overlap_no_tiles() {
    overlap_tiles = false;
    once_stages = 1;
    late_stages = 0;
  }

  std::string str() const;
  /// Sets the fields that "name=value name=value .." lists, or a plan as `str` prints it; throws
  /// CompileError naming the fields there are.
  void change(std::string_view text);
  /// Of such a text the first "name=value" that the plan does not have; empty: it has all.
  std::string_view first_missing(std::string_view text) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace tegula::ir
