#pragma once
// Schedules in the place of a plan's fields: the Plan by which today's passes carry out a Schedule.
#include <string>
#include <string_view>

#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Whether changes of a plan (Plan::change) begin with the text of a Schedule.
bool begins_with_schedule(std::string_view changes);

/// The same changes with the Schedule, if they begin with one, in fields of a plan; `fields` may
/// follow it. Throws CompileError for a text that is no Schedule's.
std::string plan_fields_of(std::string_view changes);

/// The Schedule that the changes begin with.
Schedule schedule_of(std::string_view changes, Loc at = {});

/// Fields of a plan that say the same as the Schedule, as far as a plan can: whoever asks compares
/// the Schedule with the one that is carried out.
std::string plan_fields(const Schedule& s);

/// The first line of the Schedule's text that the other one lacks, whatever their channels are
/// called; empty where they mean the same.
std::string first_difference(const Schedule& wanted, const Schedule& carried_out);

}  // namespace tegula::ir
