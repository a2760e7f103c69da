#pragma once
// Routing within the plan of a call.
#include <array>
#include <vector>

#include "kernels/moe/expert_choice.h"
#include "kernels/moe/layer_arguments.h"
#include "kernels/moe/tile_routing.h"
#include "tegula/call_plan.h"

namespace tegula::kernels::experts {

/// Slots of the tensors of MoeRouting.
struct RoutingSlots {
  PlanSlot ids, weights, row_of, slot_of, offsets, first_tiles;
};

/// Slots of the segments of one table, as kernel arguments.
struct SegmentSlots {
  PlanSlot offsets, first_tiles;
};
inline SegmentSlots segments_of(PlanBuilder& plan, const RoutingSlots& r, int table) {
  return {r.offsets,
          plan.view(r.first_tiles, [table](const Tensor& t) { return t.select(0, table); })};
}

/// Shapes of MoeRouting's tensors, in the order of its members.
struct RoutingShapes {
  RoutingShapes(const MoeOptions& options, std::int64_t tokens);
  Dims choices, rows, offsets, first_tiles;
};

/// Tile heights of the two GEMMs.
struct TileHeights {
  int up = 128, down = 128;
};

/// Inputs of routing: logits [tokens, experts], an optional bias, the maximum rows per expert.
struct RoutingInputs {
  PlanSlot logits, bias;
  int capacity = -1;
  TileHeights tiles = {};
};

/// The kernels of tile_routing.h for one tile height (tokens per tile).
class TiledRouting {
 public:
  TiledRouting(const Router& router, PlacementShape shape, int block);
  int block() const { return shape_.block; }
  /// Launches a single program, for at most block() tokens.
  void plan_one(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const;
  void plan(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const;

 private:
  /// Tiles per program of the second launch.
  static constexpr std::array kTilesOfProgram{1, 2, 4, 16};
  using Place = decltype(kernel("", PlaceTiles{}));
  const Place& place(std::int64_t tiles) const;

  PlacementShape shape_;
  decltype(kernel("", RouteOneTile{})) one_;
  decltype(kernel("", RouteTiles{})) route_;
  std::vector<Place> place_;
};

class RoutingKernels {
 public:
  explicit RoutingKernels(const MoeOptions& options);
  /// Adds the launches that fill `out`.
  void plan(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const;

 private:
  bool is_tiled(std::int64_t tokens) const;
  void plan_tiles(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const;
  void plan_by_tables(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const;

  PlacementShape shape_;
  std::vector<TiledRouting> tiled_;  ///< in ascending order of tokens per tile
  decltype(kernel("", RouteTokens{})) route_;
  decltype(kernel("", PlaceTokens{})) place_;
  bool is_by_experts_, is_batch_invariant_;
  decltype(kernel("", TokenProbabilities{})) probabilities_ =
      kernel("moe_probabilities", TokenProbabilities{});
  decltype(kernel("", ChooseTokens{})) choose_ = kernel("moe_choose_tokens", ChooseTokens{});
};

}  // namespace tegula::kernels::experts
