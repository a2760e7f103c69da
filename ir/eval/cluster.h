#pragma once
// Programs of a cluster, which run side by side.
#include <memory>
#include <span>

#include "ir/eval/program.h"

namespace tegula::ir::interp {

/// Runs the programs `first`, `first` + 1, .. of one cluster, each on its own values. They take
/// turns op by op, so each finds what the others give to a cluster_reduce_scatter.
void run_cluster(std::span<const std::unique_ptr<Program>> programs, std::int64_t first);

}  // namespace tegula::ir::interp
