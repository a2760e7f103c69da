#include "kernels/attention/spec_facts.h"

#include "kernels/has_wgmma.h"
#include "runtime/context.h"

namespace tegula {
namespace {

/// The host's devices choose as an H200 does.
AttentionGpu gpu_of(Device device) {
  if (device.kind != DeviceKind::cuda) return {};
  return {runtime::device_properties(device.index).sm_count, has_wgmma(device)};
}

}  // namespace

SpecFacts::SpecFacts(const AttentionSpec& s)
    : spec(s), way(s), score(s.score ? score_cost(s.score) : ScoreCost()) {}

TileNeeds SpecFacts::needs(std::int64_t dim, std::int64_t value_dim) const {
  return {static_cast<int>(dim), static_cast<int>(value_dim), score, way.has_gaps(),
          spec.score != nullptr};
}

std::optional<AttentionTiles> SpecFacts::given_tiles() const {
  if (spec.blocks) return AttentionTiles{spec.blocks->block_q, spec.blocks->block_kv};
  return way.is_listed() ? std::nullopt : spec.tiles;
}

TileForm SpecFacts::form(const AttentionCall& c) const {
  if (c.packs_heads || c.lengths.q.defined()) return TileForm::usual;
  AttentionLengths lengths{c.Q.size(2), c.K.size(2), 0, c.Q.size(0) * c.Q.size(1)};
  if (spec.queries_at_end) lengths.first_query = lengths.keys - lengths.queries;
  return best_form(needs(c.Q.size(3), c.V.size(3)), way.reach(), lengths, gpu_of(c.Q.device()));
}

AttentionTiles SpecFacts::tiles(const AttentionCall& c) const {
  const auto given = given_tiles();
  return given ? *given : tiles_of(form(c), needs(c.Q.size(3), c.V.size(3)), way.reach());
}

ListArgs SpecFacts::lists(const Stream& stream, const AttentionCall& c,
                          const AttentionTiles& tiles) const {
  const bool rows_are_positions = !c.packs_heads && !c.lengths.q.defined();
  if (spec.blocks && !rows_are_positions)
    refuse("`blocks` is given for sequences in one tensor",
           "lists are for [batch, heads, length, dim]");
  if (!rows_are_positions || (spec.queries_at_end && !spec.blocks)) return {};
  return way.lists(stream, {c.Q, c.K, c.V, c.O}, tiles).value_or(ListArgs{});
}

}  // namespace tegula
