#pragma once
// The general policy: an order for the dots and the arithmetic of any loop, by list scheduling.
#include <optional>

#include "ir/schedule/graph.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// `base` is legal for the kernel (as for judge) and says all but the order: roles, forms of dots,
/// channels. The result has, in each loop, the stages of dots (one iteration late or not), the
/// order and the MMAs in flight with which an iteration takes the fewest cycles of the model
/// (timeline.h); `base` itself where none takes fewer. Channels get as many slots as they need.
/// Loops whose consumers load for themselves stay as they are.
Schedule list_schedule(const Kernel& k, const Graph& graph, const Schedule& base);

/// The Schedule with as many slots as the channels need at least, if it is legal then.
std::optional<Schedule> with_needed_slots(const Kernel& k, const Graph& graph, Schedule s);

}  // namespace tegula::ir
