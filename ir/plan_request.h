#pragma once
// A plan request: the fields of a kernel's plan that a person demands, read from their text once.
// Fields that it has where it can are the kernel's own (KernelInfo::preferred).
#include <memory>
#include <string>
#include <string_view>

#include "ir/plan.h"
#include "tegula/location.h"
#include "tegula/plan_patch.h"

namespace tegula::ir {

struct Schedule;

struct PlanRequest {
  /// Fields that the kernel's author, or TEGULA_PLAN, asks for.
  PlanPatch asked;
  /// The author's Schedule; `asked` goes over its fields.
  std::shared_ptr<const Schedule> schedule;
  /// The author's line.
  Loc at;

  /// Nothing is asked for.
  bool is_empty() const { return asked == PlanPatch() && !schedule; }
  /// The fields that are asked for, those of the Schedule among them.
  PlanPatch fields() const;
  /// The text of what is asked for, which parse_plan_request reads.
  std::string str() const;
  /// Adds what a later request asks for. Its Schedule replaces all that was asked before.
  void add(const PlanRequest& later);
};

/// Reads "name=value name=value ..", a plan as it is printed, or a Schedule's text, which fields
/// may follow. Throws CompileError for what is none of these.
PlanRequest parse_plan_request(std::string_view text, Loc at = {});

/// The same without a Schedule.
PlanPatch parse_plan_patch(std::string_view text);

/// "stages=2 persistent=0": the fields that are set, in the order of ir/plan.def.
std::string str(const PlanPatch& patch);

/// `patch` with the fields of `over` in the place of its own.
PlanPatch merged(PlanPatch patch, const PlanPatch& over);

}  // namespace tegula::ir
