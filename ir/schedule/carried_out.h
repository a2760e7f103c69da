#pragma once
// Extracts the Schedule that the passes execute for a Plan from the machine form that they produce.
#include <string>

#include "ir/pipeline.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

struct CarriedOut {
  /// The kernel after layouts are assigned and before its dots are pipelined. The labels of the
  /// Schedule refer to the Graph of this kernel.
  Kernel machine;
  Schedule schedule;
};

/// Runs the passes on a copy of a kernel in tile form and returns the result. `context` contains
/// the plan, or its required fields, and receives the remarks. In scheduled loops, conversions
/// through shared memory are channels. Conversions after loops and reductions are not, because the
/// lowering assigns their memory.
CarriedOut schedule_carried_out(const Kernel& tile, PassContext& context);

}  // namespace tegula::ir
