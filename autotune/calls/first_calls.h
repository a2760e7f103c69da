#pragma once
// First calls of the library's callables, before they run: who tunes, audits or calibrates takes
// them one at a time.
#include <functional>

#include "dsl/planned_callable.h"

namespace tegula::autotune {

using FirstCallWork = std::function<void(const dsl::FirstCall& call)>;

/// Runs `calls`, every call of the library in it as a first one, and does `work` before each of
/// this thread that can be run on copies of its arguments: not while its stream records a graph,
/// nor where it takes an address without a tensor. Calls within `work` are its own.
void on_first_calls(const std::function<void()>& calls, const FirstCallWork& work);

}  // namespace tegula::autotune
