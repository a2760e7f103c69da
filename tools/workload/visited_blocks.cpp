#include "tools/workload/visited_blocks.h"

#include "ir/analysis/mask/solved_conditions.h"
#include "kernels/attention/query_rows.h"
#include "tegula/int_math.h"
#include "tegula/tegula.h"

namespace tegula {
using namespace kernels;
namespace {

/// Steps(tile, i) = twice the first key of iteration i, plus 1 if it is masked.
auto make_probe(const AttentionHeuristics& facts, AttentionTileShape tiles) {
  return kernel(
      "attention_visits", [&facts, tiles](Out<i32, 2> Steps, Scalar<i32> rows, Scalar<i32> seqlen_q,
                                          Scalar<i32> seqlen_kv, std::optional<In<i32, 4>> blocks,
                                          std::optional<In<i32, 3>> counts,
                                          std::optional<In<i32, 3>> full_counts, bool pack_gqa) {
        Steps.partial();  // tiles may take fewer iterations than allocated
        const AttentionSpec& spec = facts.spec;
        for (auto [b, h, m] : grid({full<i32>(1), full<i32>(1), rows}, 1, 1, tiles.block_q)) {
          const Tile length = seqlen_kv, tile = m.first() / tiles.block_q;
          QueryRows of = pack_gqa ? QueryRows::of_group(h, m, rows, seqlen_q)
                                  : QueryRows::of_head(h, m, seqlen_q);
          if (spec.align_bottom_right) of = of.shifted(length - seqlen_q);
          const KvBlockIterator kv_blocks =
              blocks ? KvBlockIterator::list({*blocks, *counts, *full_counts, !spec.blocks}, b, h,
                                             tile, tiles.block_kv)
                     : facts.traversal.kv_blocks(of, length, tiles.block_kv);
          Tile i = full<i32>(0);
          for (auto step : kv_blocks.steps()) {
            const Tile is_masked = kv_blocks.needs_mask(step, spec.mask != nullptr);
            Steps(tile, i) = kv_blocks.block(step).first() * 2 + where(is_masked, 1, 0);
            i = i + 1;
          }
        }
      });
}

}  // namespace

std::vector<std::vector<VisitedBlock>> visited_blocks(const AttentionHeuristics& facts,
                                                      const AttentionCall& call,
                                                      const AttentionTileShape& tiles) {
  const std::int64_t queries = call.Q.size(2), keys = call.K.size(2);
  // Each closed range may contain a partially filled block.
  const std::int64_t rows = ceil_div(queries, tiles.block_q),
                     most = keys / tiles.block_kv + 1 +
                            static_cast<std::int64_t>(ir::kMaxSolutionIntervals);
  const Device device = call.Q.device();
  const Stream stream(device);
  const Tensor steps = Tensor::full({rows, most}, -1, DType::i32, device);
  const BlockListArgs lists = facts.lists(
      stream, call, {tiles.block_q, tiles.block_kv, false, facts.config(call).longest_first});
  make_probe(facts, tiles)(stream, steps, static_cast<i32>(queries),
                           call.pack_gqa ? call.seqlen_q : static_cast<i32>(queries),
                           static_cast<i32>(keys), lists.blocks, lists.counts, lists.full,
                           call.pack_gqa);
  const auto noted = steps.to_vector<i32>();
  std::vector<std::vector<VisitedBlock>> visited;
  for (std::int64_t m = 0; m < rows; ++m) {
    auto& row = visited.emplace_back();
    for (std::int64_t i = 0; i < most; ++i)
      if (const i32 x = noted[static_cast<std::size_t>(m * most + i)]; x >= 0)
        row.push_back({x / 2, x % 2 != 0});
  }
  return visited;
}

}  // namespace tegula
