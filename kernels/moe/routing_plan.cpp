#include "kernels/moe/routing_plan.h"

#include <algorithm>

namespace tegula::experts {
namespace {

PlacementShape placement_shape(const MoeOptions& o) {
  return {.experts = all_experts(o),
          .k = choices_per_token(o),
          .has_capacity = o.capacity.has_value(),
          .by_slot = o.capacity && o.capacity->by_slot,
          .group_tokens = o.capacity ? o.capacity->group_tokens : 0};
}

}  // namespace

RoutingShapes::RoutingShapes(const MoeOptions& o, std::int64_t tokens)
    : choices{tokens, choices_per_token(o)},
      rows{rows_of_experts(o, tokens)},
      offsets{all_experts(o) + 1},
      first_tiles{kTileRowChoices, all_experts(o) + 1} {}

RoutingKernels::RoutingKernels(const MoeOptions& o)
    : shape_(placement_shape(o)),
      route_(kernel("moe_route", RouteTokens{o.router, shape_, o.shared_experts})),
      route_and_place_(
          kernel("moe_route_and_place", RouteTokens{o.router, shape_, o.shared_experts, true})),
      place_(kernel("moe_place", PlaceTokens{shape_})),
      is_by_experts_(o.expert_choice.has_value()) {}

void RoutingKernels::plan(PlanBuilder& plan, PlanSlot logits, PlanSlot bias, int capacity,
                          const RoutingSlots& r) const {
  if (is_by_experts_) {
    plan.launch(probabilities_, logits, bias, r.weights, r.ids, r.row_of);
    plan.launch(choose_, r.weights, r.ids, r.row_of, r.slot_of, r.offsets, r.first_tiles, capacity);
    return;
  }
  // Without tokens, one program writes tables without rows.
  const std::int64_t tokens = plan.tensor(logits).size(0), block = shape_.block,
                     tiles = std::max<std::int64_t>(1, (tokens + block - 1) / block),
                     groups = (tiles + kTilesPerGroup - 1) / kTilesPerGroup;
  const bool is_one_launch = tiles <= kTilesInOneLaunch;
  const PlanSlot counts = plan.scratch({tiles, shape_.bins()}, DType::i32),
                 group_counts = plan.scratch({groups, shape_.bins()}, DType::i32),
                 bases = plan.scratch({shape_.competitions(groups), shape_.bins()}, DType::i32),
                 kept = plan.scratch({shape_.competitions(groups), shape_.experts}, DType::i32);
  plan.launch(is_one_launch ? route_and_place_ : route_, logits, bias, plan.counters(1 + groups),
              counts, group_counts, bases, kept, r.offsets, r.first_tiles, r.ids, r.weights,
              r.row_of, r.slot_of, capacity);
  if (!is_one_launch)
    plan.launch(place_, r.ids, counts, group_counts, bases, kept, r.offsets, r.first_tiles,
                r.row_of, r.slot_of, capacity);
}

}  // namespace tegula::experts
