#pragma once
// Routing kernels whose tables are computed by the last program: for any number of tokens, and for
// choices that compete by slot or in groups.
#include <optional>

#include "kernels/moe/placement.h"
#include "tegula/kernels/moe_routers.h"

namespace tegula::kernels::experts {

/// Choices of tokens by `router` from `logits` [tokens, experts] (+ `bias`), followed by the shared
/// experts of the shape, with weight 1.
struct TokenChoices {
  Router router;
  PlacementShape shape;

  /// Returns the choices of a tile of tokens [block, k]; tokens beyond the last have none.
  Routing of(const In<f32, 2>& logits, const std::optional<In<f32, 1>>& bias,
             const Index& t) const {
    const Subscript experts = whole(logits.static_dim(1));  // in bounds
    Tile z = logits(t, experts);
    if (bias) z = z + (*bias)(experts)(none, all);
    auto [weights, ids] = router.choose(z, t);
    if (const int shared = shape.shared; shared > 0) {
      ids = where(ids < shape.routed(), ids, -1);  // a router must not choose shared experts
      const Tile number = arange(shared, shape.routed())(none, all);
      ids = cat({ids, broadcast(number, {shape.block, shared})}, 1);
      weights = cat({weights, full<f32>(1.0f, shape.block, shared)}, 1);
    }
    // Choices may not depend on the logits, so absent tokens are masked explicitly.
    const auto own = [&](const Tile& x) { return crop(x, 0, t.first(), logits.rows()); };
    return {own(weights), own(ids)};
  }
};

/// Computes the choices of all tokens, their counts, and the tables of the placement.
struct RouteTokens {
  TokenChoices choices;

  void operator()(In<f32, 2> logits, std::optional<In<f32, 1>> bias, Ptr<u32> arrivals,
                  PlacementTables tables, PlacementSegments segments, InOut<i32, 2> ids,
                  InOut<f32, 2> weights, Scalar<i32> capacity) const {
    const Placement placement(choices.shape, tables, segments, capacity);
    for (auto i : grid(tegula::rows(tables.counts), 1)) {
      grid_launch_dependents();
      grid_dependency_wait();
      const Tile tile = cast<i32>(i.first());
      const Index t = placement.tokens(tile);
      const auto [weight, id] = choices.of(logits, bias, t);
      ids(t, whole(choices.shape.k)) = id, weights(t, whole(choices.shape.k)) = weight;
      placement.count(tile, id, arrivals);
    }
  }
};

/// Writes the rows of all choices.
struct PlaceTokens {
  PlacementShape shape;

  void operator()(In<i32, 2> ids, PlacementTables tables, PlacementSegments segments,
                  PlacementRows rows, Scalar<i32> capacity) const {
    const Placement placement(shape, tables, segments, capacity);
    for (auto i : grid(tegula::rows(tables.counts), 1)) {
      grid_launch_dependents();
      grid_dependency_wait();
      const Tile tile = cast<i32>(i.first());
      placement.place(tile, ids(placement.tokens(tile), whole(shape.k)), rows);
    }
  }
};

}  // namespace tegula::kernels::experts
