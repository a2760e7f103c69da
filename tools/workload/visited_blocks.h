#pragma once
// Lists the kv blocks that attention visits, by a kernel that runs its loop and records iterations.
#include <cstdint>
#include <vector>

#include "kernels/attention/heuristics.h"

namespace tegula {

/// Keys [first, first + block). If some need a mask, all are masked.
struct VisitedBlock {
  std::int64_t first;
  bool is_masked;
};

/// Returns the visited blocks of each query tile, for the first head (or packed group) of the first
/// batch entry. Calls are [batch, heads, length, head_dim]; runs on the device of the queries.
std::vector<std::vector<VisitedBlock>> visited_blocks(const kernels::AttentionHeuristics& facts,
                                                      const kernels::AttentionCall& call,
                                                      const AttentionTileShape& tiles);

}  // namespace tegula
