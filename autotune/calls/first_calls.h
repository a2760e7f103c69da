#pragma once
// Hook for the first calls of the library's callables, used by tuning, audit and calibration. It
// handles one call at a time.
#include <functional>

#include "dsl/planned_callable.h"

namespace tegula::autotune {

using FirstCallWork = std::function<void(const dsl::FirstCall& call)>;

/// Runs `calls` as if every library call in it were a first call, and runs `work` before each call
/// of this thread that can run on copies of its arguments: not while its stream records a graph,
/// and not if it takes an address without a tensor. Calls within `work` run normally.
void on_first_calls(const std::function<void()>& calls, const FirstCallWork& work);

}  // namespace tegula::autotune
