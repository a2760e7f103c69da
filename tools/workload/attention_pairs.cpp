#include "tools/workload/attention_pairs.h"

#include "tegula/kernels/masks.h"
#include "tools/workload/mask_pairs.h"
#include "tools/workload/traced_mask.h"
#include "tools/workload/visited_blocks.h"

namespace tegula {
using namespace kernels;
namespace {

/// Queries are numbered as in the mask.
MaskPairs kept_pairs(const AttentionSpec& spec, std::int64_t queries, std::int64_t keys) {
  const TracedMask traced = trace_mask(spec.mask ? spec.mask : masks::full());
  const ir::MaskParams params = traced.params();
  ir::MaskBlocks blocks(traced.expr);
  const std::int64_t first = spec.align_bottom_right ? keys - queries : 0;
  return MaskPairCounter(blocks, params, {kCoverQueries, kCoverKeys})
      .count({0, 0, first, first + queries, 0, keys});
}

}  // namespace

AttentionWorkload attention_pairs(const AttentionSpec& spec, const Tensor& Q, const Tensor& K,
                                  const Tensor& V, const AttentionSchedule& schedule) {
  const AttentionHeuristics facts(spec, schedule);
  AttentionCall call;
  call.Q = Q, call.K = K, call.V = V, call.O = Q;
  AttentionWorkload pairs{.tiles = facts.config(call).tiles(), .kept = {}};
  for (const auto& row : visited_blocks(facts, call, pairs.tiles)) {
    pairs.steps.push_back(static_cast<std::int64_t>(row.size()));
    pairs.computed += pairs.steps.back() * pairs.tiles.block_q * pairs.tiles.block_kv;
  }
  const MaskPairs kept = kept_pairs(spec, Q.size(2), K.size(2));
  if (kept.least == kept.most) pairs.kept = kept.most;
  pairs.cover = kept.cover;
  return pairs;
}

}  // namespace tegula
