#pragma once
// The general scheduling policy: orders the dots and the arithmetic of any loop by list scheduling.
#include <optional>

#include "ir/schedule/graph.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Returns `base` with new stages of dots (at most one iteration late), orders and MMAs in flight
/// in each loop, chosen to minimize the cycles of an iteration in the model of timeline.h; `base`
/// itself if nothing takes fewer. `base` must be legal for the kernel (see judge) and fixes roles,
/// forms of dots and channels, whose slots are raised if necessary. Loops whose consumer role also
/// issues copies, or that compute in several roles, are not changed.
Schedule list_schedule(const Kernel& k, const Graph& graph, const Schedule& base);

/// Returns the Schedule with at least the minimum slots of each channel, or nothing if it is not
/// legal then.
std::optional<Schedule> with_needed_slots(const Kernel& k, const Graph& graph, Schedule s);

}  // namespace tegula::ir
