#pragma once
// One kernel through every executor.
#include <functional>

#include "tegula/tegula.h"
#include "tools/support_matrix.h"

namespace tegula::tools {

/// A call of a kernel with tensors on a device: gives what it wrote.
struct Probe {
  std::function<Trace()> trace;
  std::function<std::vector<std::uint64_t>(Device)> run;
};

Outcome outcome_of(const Probe& probe, bool assembles);

}  // namespace tegula::tools
