#include "kernels/moe/routing_plan.h"

#include <algorithm>

namespace tegula::kernels::experts {
namespace {

/// Largest number of tokens that one program routes; for more, a second launch is cheaper.
constexpr std::int64_t kTokensOfOneTile = 32;
constexpr int kBlocks[] = {16, 32, 64};
/// Tiles that the SMs route concurrently: for more tokens, larger tiles are used if available, so
/// that fewer counts have to be added.
constexpr std::int64_t kTilesAtOnce = 128;
/// Largest number of tile counts that each program of the second launch adds: half a megabyte from
/// L2. Columns of more experts do not fit in the registers of a warp.
constexpr std::int64_t kMaxCounts = std::int64_t{1} << 18;
constexpr int kMaxColumns = 512;
/// Number of programs of the second launch above which each processes several tiles.
constexpr std::int64_t kPlacingPrograms = 128;

PlacementShape placement_shape(const MoeOptions& o) {
  return {.experts = all_experts(o),
          .k = choices_per_token(o),
          .shared = o.shared_experts,
          .has_capacity = o.capacity.has_value(),
          .by_slot = o.capacity && o.capacity->by_slot,
          .group_tokens = o.capacity ? o.capacity->group_tokens : 0};
}

std::int64_t tiles_of(std::int64_t tokens, int block) {
  return std::max<std::int64_t>(1, (tokens + block - 1) / block);
}

std::int64_t tokens_of(const PlanBuilder& plan, const RoutingInputs& in) {
  return plan.tensor(in.logits).size(0);
}

}  // namespace

RoutingShapes::RoutingShapes(const MoeOptions& o, std::int64_t tokens)
    : choices{tokens, choices_per_token(o)},
      rows{rows_of_experts(o, tokens)},
      offsets{all_experts(o) + 1},
      first_tiles{kTileTables, all_experts(o) + 1} {}

// ---- tiles of tokens ----------------------------------------------------------------------------

TiledRouting::TiledRouting(const Router& router, PlacementShape shape, int block)
    : shape_([&] {
        shape.block = block;
        return shape;
      }()),
      one_(kernel("moe_route", RouteOneTile{{router, shape_}})),
      route_(kernel("moe_route", RouteTiles{{router, shape_}})) {
  const PlanPatch routing{.num_warps = routing_warps(shape_.block, shape_.experts)};
  one_ = one_.with_plan(routing), route_ = route_.with_plan(routing);
  const PlanPatch placing{.num_warps = kPlacingWarps, .min_ctas_per_sm = 1};
  for (const int tiles : kTilesOfProgram)
    place_.push_back(kernel("moe_place", PlaceTiles{shape_, tiles}).with_plan(placing));
}

const TiledRouting::Place& TiledRouting::place(std::int64_t tiles) const {
  std::size_t i = 0;
  while (i + 1 < place_.size() && tiles > kPlacingPrograms * kTilesOfProgram[i]) ++i;
  return place_[i];
}

void TiledRouting::plan_one(PlanBuilder& plan, const RoutingInputs& in,
                            const RoutingSlots& out) const {
  plan.launch(one_, in.logits, in.bias, out.offsets, out.first_tiles, in.tiles.up, in.tiles.down,
              out.ids, out.weights, out.row_of, out.slot_of, in.capacity);
}

void TiledRouting::plan(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const {
  const std::int64_t tiles = tiles_of(tokens_of(plan, in), block());
  const PlanSlot counts = plan.scratch({tiles, counted_experts(shape_.experts)}, DType::u16);
  plan.launch(route_, in.logits, in.bias, counts, out.ids, out.weights, out.row_of);
  plan.launch(place(tiles), out.ids, plan.view(counts, pairs_of), out.offsets, out.first_tiles,
              in.tiles.up, in.tiles.down, out.row_of, out.slot_of, in.capacity);
}

// ---- all kinds of routing -----------------------------------------------------------------------

RoutingKernels::RoutingKernels(const MoeOptions& o)
    : shape_(placement_shape(o)),
      route_(kernel("moe_route", RouteTokens{{o.router, shape_}})),
      place_(kernel("moe_place", PlaceTokens{shape_})),
      is_by_experts_(o.expert_choice.has_value()),
      is_batch_invariant_(o.is_batch_invariant) {
  const int experts = counted_experts(shape_.experts);
  for (const int block : kBlocks)
    if (block == kBlocks[0] || block * experts <= 32 * kMaxWarps * kLogitsPerThread)
      tiled_.emplace_back(o.router, shape_, block);
}

/// Choices that compete by slot or in groups need tables of all tokens. Sums over a token's row
/// follow the layout, which depends on the tile height: not batch-invariant.
bool RoutingKernels::is_tiled(std::int64_t tokens) const {
  const int columns = counted_experts(shape_.experts);
  return !is_batch_invariant_ && !shape_.by_slot && shape_.group_tokens == 0 &&
         columns <= kMaxColumns && shape_.k <= PlaceTiles::most_choices(tiled_.back().block()) &&
         tiles_of(tokens, tiled_.back().block()) * columns <= kMaxCounts;
}

void RoutingKernels::plan(PlanBuilder& plan, const RoutingInputs& in,
                          const RoutingSlots& out) const {
  if (is_by_experts_) {
    plan.launch(probabilities_, in.logits, in.bias, out.weights, out.ids, out.row_of);
    plan.launch(choose_, out.weights, out.ids, out.row_of, out.slot_of, out.offsets,
                out.first_tiles, in.tiles.up, in.tiles.down, in.capacity);
  } else if (is_tiled(tokens_of(plan, in))) {
    plan_tiles(plan, in, out);
  } else {
    plan_by_tables(plan, in, out);
  }
}

void RoutingKernels::plan_tiles(PlanBuilder& plan, const RoutingInputs& in,
                                const RoutingSlots& out) const {
  const std::int64_t tokens = tokens_of(plan, in);
  if (tokens <= kTokensOfOneTile)
    for (const TiledRouting& of : tiled_)
      if (tokens <= of.block()) return of.plan_one(plan, in, out);
  const auto fits = [&](const TiledRouting& of) {
    return tiles_of(tokens, of.block()) <= kTilesAtOnce;
  };
  const auto found = std::ranges::find_if(tiled_, fits);
  (found != tiled_.end() ? *found : tiled_.back()).plan(plan, in, out);
}

void RoutingKernels::plan_by_tables(PlanBuilder& plan, const RoutingInputs& in,
                                    const RoutingSlots& out) const {
  // Without tokens, one program writes empty segments.
  const std::int64_t tiles = tiles_of(tokens_of(plan, in), shape_.block),
                     groups = (tiles + kTilesPerGroup - 1) / kTilesPerGroup;
  const PlanSlot counts = plan.scratch({tiles, shape_.bins()}, DType::i32),
                 group_counts = plan.scratch({groups, shape_.bins()}, DType::i32),
                 bases = plan.scratch({shape_.competitions(groups), shape_.bins()}, DType::i32),
                 kept = plan.scratch({shape_.competitions(groups), shape_.experts}, DType::i32);
  plan.launch(route_, in.logits, in.bias, plan.counters(1 + groups), counts, group_counts, bases,
              kept, out.offsets, out.first_tiles, in.tiles.up, in.tiles.down, out.ids, out.weights,
              in.capacity);
  plan.launch(place_, out.ids, counts, group_counts, bases, kept, out.offsets, out.first_tiles,
              in.tiles.up, in.tiles.down, out.row_of, out.slot_of, in.capacity);
}

}  // namespace tegula::kernels::experts
