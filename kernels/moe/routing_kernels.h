#pragma once
// The kernels of routing: choices and tables in one launch, rows in it or in a second one.
#include <optional>

#include "kernels/moe/placement.h"
#include "tegula/kernels/moe_routers.h"

namespace tegula::experts {

/// Choices of every token by `router` from `logits` [tokens, experts] (+ `bias`), behind them
/// `shared` experts that all tokens go to, with weight 1; their counts, and the tables of the
/// placement. With few tokens (`places`), the last program writes the rows, too.
struct RouteTokens {
  Router router;
  PlacementShape shape;  ///< shared experts and choices included
  int shared = 0;
  bool places = false;

  void operator()(In<f32, 2> logits, std::optional<In<f32, 1>> bias, Ptr<u32> arrivals,
                  PlacementTables tables, InOut<i32, 2> ids, InOut<f32, 2> weights,
                  PlacementRows rows, Scalar<i32> capacity) const {
    const Placement placement(shape, tables, capacity);
    for (auto i : grid(rows_of(tables), 1)) {
      grid_dependency_wait();
      const Tile tile = cast<i32>(i.first());
      const Index t = placement.tokens(tile);
      const auto [weight, id] = choices(logits, bias, t);
      ids(t, whole(shape.k)) = id, weights(t, whole(shape.k)) = weight;
      placement.count(tile, id, arrivals, [&] {
        if (!places) return;
        for (auto other : steps(placement.tiles(), 1)) {
          const Tile of = cast<i32>(other.first());
          placement.place(of, ids(placement.tokens(of), whole(shape.k)), rows);
        }
      });
    }
  }

 private:
  static GridSpace rows_of(const PlacementTables& tables) { return tegula::rows(tables.counts); }
  Routing choices(const In<f32, 2>& logits, const std::optional<In<f32, 1>>& bias,
                  const Index& t) const {
    const Subscript experts = whole(shape.experts - shared);
    Tile z = logits(t, experts);
    if (bias) z = z + (*bias)(experts)(none, all);
    auto [weights, ids] = router.choose(z, t);
    if (shared > 0) {
      const Tile number = arange(shared, shape.experts - shared)(none, all);
      ids = cat({ids, broadcast(number, {shape.block, shared})}, 1);
      weights = cat({weights, full<f32>(1.0f, shape.block, shared)}, 1);
    }
    // Choices need not come from the logits, and there are none of tokens behind the last.
    const auto own = [&](const Tile& x) { return crop(x, 0, t.first(), logits.rows()); };
    return {own(weights), own(ids)};
  }
};

/// Writes the rows of all choices.
struct PlaceTokens {
  PlacementShape shape;

  void operator()(In<i32, 2> ids, PlacementTables tables, PlacementRows rows,
                  Scalar<i32> capacity) const {
    const Placement placement(shape, tables, capacity);
    for (auto i : grid(tegula::rows(tables.counts), 1)) {
      grid_dependency_wait();
      const Tile tile = cast<i32>(i.first());
      placement.place(tile, ids(placement.tokens(tile), whole(shape.k)), rows);
    }
  }
};

}  // namespace tegula::experts
