#include "kernels/attention/query_traversal.h"

#include "tegula/tegula.h"

namespace tegula::kernels {

QueryTraversal::QueryTraversal(const AttentionSpec& spec) {
  if (!spec.mask) return;
  mask_.emplace([mask = spec.mask](const Tile& b, const Tile& h, const Tile& kv, const Tile& q) {
    return mask(b, h, q, kv);
  });
}

KvBlockIterator QueryTraversal::blocks(const Tile& first, const Tile& last, const Tile& seqlen_q,
                                       const Tile& shift, int block) const {
  KvRanges queries;
  if (mask_) queries = mask_->record(first, last, seqlen_q + shift);
  const auto aligned = [&](const KvRange& r) {
    return KvRange{max(r.lo - shift, 0) / block * block, r.hi - shift};
  };
  if (queries.visible) queries.visible = aligned(*queries.visible);
  for (KvRange& r : queries.visible_intervals) r = aligned(r);
  if (queries.full) queries.full = KvRange{queries.full->lo - shift, queries.full->hi - shift};
  for (KvRange& r : queries.full_intervals) r = {r.lo - shift, r.hi - shift};
  return KvBlockIterator::range(queries, seqlen_q, block);
}

std::optional<BlockListSlots> QueryTraversal::lists(PlanBuilder& plan, const Tensor& by_head,
                                                    const Tensor& Q, BlockShape block,
                                                    const CuSeqlens& lengths, PlanSlot keys,
                                                    PlanSlot queries) const {
  if (!mask_) return std::nullopt;
  return mask_->lists(plan, by_head, Q, Q, by_head, block, {.lengths = lengths}, keys, queries);
}

}  // namespace tegula::kernels
