#pragma once
// Schedules in the place of a plan's fields: the Plan by which today's passes carry out a Schedule.
#include <string>

#include "ir/schedule/schedule.h"
#include "tegula/plan_patch.h"

namespace tegula::ir {

/// Fields of a plan that say the same as the Schedule, as far as a plan can: whoever asks compares
/// the Schedule with the one that is carried out.
PlanPatch plan_fields(const Schedule& s);

/// The first line of the Schedule's text that the other one lacks, whatever their channels are
/// called; empty where they mean the same.
std::string first_difference(const Schedule& wanted, const Schedule& carried_out);

}  // namespace tegula::ir
