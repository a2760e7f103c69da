#pragma once
// The Schedule that today's passes carry out for a Plan, read off the machine form that they leave.
#include <string>

#include "ir/pipeline.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

struct CarriedOut {
  /// The kernel as it has its layouts and before its dots are pipelined: the labels of the Schedule
  /// are those of its Graph.
  Kernel machine;
  Schedule schedule;
};

/// Runs the passes on a copy of a kernel in tile form. `context` has the plan, or what it must
/// have, and gets the remarks. Conversions of scheduled loops through shared memory are channels;
/// those behind loops, and reductions, are not: the lowering decides about their memory.
CarriedOut schedule_carried_out(const Kernel& tile, PassContext& context);

}  // namespace tegula::ir
