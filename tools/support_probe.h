#pragma once
// Runs one kernel on every executor.
#include <functional>

#include "tegula/tegula.h"
#include "tools/support_matrix.h"

namespace tegula::tools {

/// A kernel call with tensors on a device; `run` returns the written bits.
struct Probe {
  std::function<Trace()> trace;
  std::function<std::vector<std::uint64_t>(Device)> run;
};

Outcome outcome_of(const Probe& probe, bool assembles);

}  // namespace tegula::tools
