#pragma once
// A plan request: the fields of a kernel's plan that a person requires, parsed from text once.
// Fields that are only preferred belong to the kernel (KernelInfo::preferred).
#include <memory>
#include <string>
#include <string_view>

#include "ir/plan.h"
#include "tegula/location.h"
#include "tegula/plan_patch.h"

namespace tegula::ir {

struct Schedule;

struct PlanRequest {
  /// Fields that the kernel's author, or TEGULA_PLAN, requires.
  PlanPatch requested;
  /// The author's Schedule; `requested` overrides its fields.
  std::shared_ptr<const Schedule> schedule;
  /// Location of the request in the author's code.
  Loc at;

  /// Returns true if nothing is requested.
  bool is_empty() const { return requested == PlanPatch() && !schedule; }
  /// Returns the requested fields, including those of the Schedule.
  PlanPatch fields() const;
  /// Returns the text of the request, which parse_plan_request parses.
  std::string str() const;
  /// Adds a later request, whose fields take precedence. Its Schedule replaces the whole earlier
  /// request.
  void add(const PlanRequest& later);
};

/// Parses "name=value name=value ..", a printed plan, or a Schedule's text, which fields may
/// follow. Throws CompileError for any other text.
PlanRequest parse_plan_request(std::string_view text, Loc loc = {});

/// Parses the same texts except Schedules.
PlanPatch parse_plan_patch(std::string_view text);

/// Returns "stages=2 persistent=0": the fields that are set, in the order of ir/plan.def.
std::string str(const PlanPatch& patch);

/// Returns `patch` with the fields of `over` overriding its own.
PlanPatch merged(PlanPatch patch, const PlanPatch& over);

}  // namespace tegula::ir
