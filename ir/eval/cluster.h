#pragma once
// Runs the programs of a cluster together.
#include <memory>
#include <span>

#include "ir/eval/program.h"

namespace tegula::ir::interp {

/// Runs the programs `first`, `first` + 1, .. of one cluster, each with its own values. They run op
/// by op in lockstep, so that the tiles of all programs are available at a cluster_reduce_scatter.
void run_cluster(std::span<const std::unique_ptr<Program>> programs, std::int64_t first);

}  // namespace tegula::ir::interp
