#pragma once
// Routing in the plan of a call.
#include "kernels/moe/layer_arguments.h"
#include "kernels/moe/routing_kernels.h"
#include "tegula/call_plan.h"

namespace tegula::experts {

/// The tensors of MoeRouting in a plan.
struct RoutingSlots {
  PlanSlot ids, weights, row_of, slot_of, offsets, first_tiles;
};

/// Segments of tiles of `rows` rows, as kernels take them.
struct SegmentSlots {
  PlanSlot offsets, first_tiles;
};
inline SegmentSlots segments_of(PlanBuilder& plan, const RoutingSlots& r, int rows) {
  const int index = tile_rows_index(rows);
  return {r.offsets,
          plan.view(r.first_tiles, [index](const Tensor& t) { return t.select(0, index); })};
}

/// The shapes of MoeRouting's tensors, in order of its members.
struct RoutingShapes {
  RoutingShapes(const MoeOptions& options, std::int64_t tokens);
  Dims choices, rows, offsets, first_tiles;
};

class RoutingKernels {
 public:
  explicit RoutingKernels(const MoeOptions& options);
  /// Adds the launches that fill `r` from logits [tokens, experts].
  void plan(PlanBuilder& plan, PlanSlot logits, PlanSlot bias, int capacity,
            const RoutingSlots& r) const;

 private:
  using Route = decltype(kernel("", RouteTokens{}));
  PlacementShape shape_;
  Route route_, route_and_place_;
  decltype(kernel("", PlaceTokens{})) place_;
};

}  // namespace tegula::experts
