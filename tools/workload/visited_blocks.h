#pragma once
// Lists the kv blocks that attention visits: its loop, run by a kernel that notes the iterations.
#include <cstdint>
#include <vector>

#include "kernels/attention/heuristics.h"

namespace tegula {

/// Keys [first, first + block); where some need a mask, all are masked.
struct VisitedBlock {
  std::int64_t first;
  bool is_masked;
};

/// By tile of queries, of the first head, or group of packed ones, of the first entry of a batch.
/// For calls of [batch, heads, length, head_dim]; runs where the queries are.
std::vector<std::vector<VisitedBlock>> visited_blocks(const AttentionHeuristics& facts,
                                                      const AttentionCall& call,
                                                      const AttentionTileShape& tiles);

}  // namespace tegula
