#pragma once
// Converts a Schedule to the plan fields by which the passes execute it.
#include <string>

#include "ir/schedule/schedule.h"
#include "tegula/plan_patch.h"

namespace tegula::ir {

/// Returns the plan fields that express the Schedule. A plan cannot express every Schedule, so the
/// caller must compare the Schedule with the one that the passes execute.
PlanPatch plan_fields(const Schedule& s);

/// Returns the first line of the Schedule's text that is missing from the other one, ignoring the
/// names of channels; "" if both have the same meaning.
std::string first_difference(const Schedule& wanted, const Schedule& carried_out);

}  // namespace tegula::ir
