#pragma once
// Routing in the plan of a call.
#include <array>
#include <vector>

#include "kernels/moe/expert_choice.h"
#include "kernels/moe/layer_arguments.h"
#include "kernels/moe/tile_routing.h"
#include "tegula/call_plan.h"

namespace tegula::experts {

/// The tensors of MoeRouting in a plan.
struct RoutingSlots {
  PlanSlot ids, weights, row_of, slot_of, offsets, first_tiles;
};

/// Segments of tiles that a table counts, as kernels take them.
struct SegmentSlots {
  PlanSlot offsets, first_tiles;
};
inline SegmentSlots segments_of(PlanBuilder& plan, const RoutingSlots& r, int table) {
  return {r.offsets,
          plan.view(r.first_tiles, [table](const Tensor& t) { return t.select(0, table); })};
}

/// The shapes of MoeRouting's tensors, in order of its members.
struct RoutingShapes {
  RoutingShapes(const MoeOptions& options, std::int64_t tokens);
  Dims choices, rows, offsets, first_tiles;
};

/// Rows of the tiles of the two products.
struct TileHeights {
  int up = 128, down = 128;
};

/// Operands of routing: logits [tokens, experts], a bias or none, the most rows of an expert.
struct RoutingInputs {
  PlanSlot logits, bias;
  int capacity = -1;
  TileHeights tiles = {};
};

/// The kernels of tile_routing.h for tiles of one number of tokens.
class TiledRouting {
 public:
  TiledRouting(const Router& router, PlacementShape shape, int block);
  int block() const { return shape_.block; }
  /// Launches one program for at most block() tokens.
  void plan_one(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const;
  void plan(PlanBuilder& plan, const RoutingInputs& in, const RoutingSlots& out) const;

 private:
  /// Tiles that a program of the second launch has.
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
  std::vector<TiledRouting> tiled_;  ///< by ascending tokens of a tile
  decltype(kernel("", RouteTokens{})) route_;
  decltype(kernel("", PlaceTokens{})) place_;
  bool is_by_experts_, is_batch_invariant_;
  decltype(kernel("", TokenProbabilities{})) probabilities_ =
      kernel("moe_probabilities", TokenProbabilities{});
  decltype(kernel("", ChooseTokens{})) choose_ = kernel("moe_choose_tokens", ChooseTokens{});
};

}  // namespace tegula::experts
