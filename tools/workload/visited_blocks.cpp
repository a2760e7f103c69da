#include "tools/workload/visited_blocks.h"

#include "ir/analysis/mask/solved_conditions.h"
#include "kernels/attention/query_rows.h"
#include "tegula/quotients.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

/// Steps(tile, i) = twice the first key of step i, and 1 where it is masked.
auto make_probe(const SpecFacts& facts, AttentionTiles tiles) {
  return kernel("attention_visits", [&facts, tiles](
                                        Out<i32, 2> Steps, Scalar<i32> rows, Scalar<i32> q_length,
                                        Scalar<i32> kv_length, std::optional<In<i32, 4>> blocks,
                                        std::optional<In<i32, 3>> counts,
                                        std::optional<In<i32, 3>> full_counts, bool packs_heads) {
    Steps.partial();  // tiles make fewer steps than there is room for
    const AttentionSpec& spec = facts.spec;
    for (auto [b, h, m] : grid({full<i32>(1), full<i32>(1), rows}, 1, 1, tiles.queries)) {
      const Tile length = kv_length, tile = m.first() / tiles.queries;
      Rows of = packs_heads ? Rows::of_group(h, m, rows, q_length) : Rows::of_head(h, m);
      if (spec.queries_at_end) of = of.shifted(length - q_length);
      const Visits visits = blocks ? Visits::list({*blocks, *counts, *full_counts, !spec.blocks}, b,
                                                  h, tile, tiles.keys)
                                   : facts.way.visits(of, length, tiles.keys);
      Tile i = full<i32>(0);
      for (auto step : visits.steps()) {
        const Tile is_masked = visits.needs_mask(step, spec.mask != nullptr);
        Steps(tile, i) = visits.block(step).first() * 2 + where(is_masked, 1, 0);
        i = i + 1;
      }
    }
  });
}

}  // namespace

std::vector<std::vector<VisitedBlock>> visited_blocks(const SpecFacts& facts,
                                                      const AttentionCall& call,
                                                      const AttentionTiles& tiles) {
  const std::int64_t queries = call.Q.size(2), keys = call.K.size(2);
  // Each closed range may have a block that is not full of its keys.
  const std::int64_t rows = ceil_div(queries, tiles.queries),
                     most = keys / tiles.keys + 1 + static_cast<std::int64_t>(ir::kMaxParts);
  const Device device = call.Q.device();
  const Stream stream(device);
  const Tensor steps = Tensor::full({rows, most}, -1, DType::i32, device);
  const ListArgs lists = facts.lists(stream, call, tiles);
  make_probe(facts, tiles)(stream, steps, static_cast<i32>(queries),
                           call.packs_heads ? call.q_length : static_cast<i32>(queries),
                           static_cast<i32>(keys), lists.blocks, lists.counts, lists.full,
                           call.packs_heads);
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
