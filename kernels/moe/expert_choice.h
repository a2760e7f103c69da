#pragma once
// Expert-choice routing (Zhou et al. 2022): each expert takes its best tokens, all equally many.
#include "kernels/moe/placement.h"
#include "tegula/kernels/moe_routers.h"

namespace tegula::kernels::experts {

/// Writes the experts' probabilities [T, E], the weights of choices; no token is chosen yet.
struct TokenProbabilities {
  void operator()(In<f32, 2> logits, std::optional<In<f32, 1>> bias, Out<f32, 2> weights,
                  Out<i32, 2> ids, Out<i32, 2> row_of) const {
    const int experts = logits.static_dim(1);
    const Subscript all_experts = whole(experts);
    for (auto t : grid(rows(logits), 16)) {
      grid_dependency_wait();
      Tile z = logits(t, all_experts);
      if (bias) z = z + (*bias)(all_experts)(none, all);
      weights(t, all_experts) = routers::softmax_rows(z);
      ids(t, all_experts) = full<i32>(-1, 16, experts);
      row_of(t, all_experts) = full<i32>(-1, 16, experts);
    }
  }
};

/// One program per expert e: selects its best `rows` tokens, which get rows from e * rows on.
/// Choice t * E + e is that of token t by expert e.
struct ChooseTokens {
  void operator()(In<f32, 2> weights, InOut<i32, 2> ids, InOut<i32, 2> row_of, Out<i32, 1> slot_of,
                  PlacementSegments segments, int rows) const {
    const int tokens = weights.static_dim(0), experts = weights.static_dim(1);
    for (auto e : grid(GridSpace(Tile(experts)), 1)) {
      grid_dependency_wait();
      const Tile expert = cast<i32>(e.first());
      if (rows > 0) {
        const Tile best = topk(weights(whole(tokens), expert), rows, 0).indices,
                   mine = expert * rows + arange(rows), choices = best * experts + expert;
        ids(best, expert) = expert + arange(rows) * 0;
        row_of(best, expert) = mine;
        slot_of(mine) = choices;
      }
      const Tile table = arange(kTileTables), tiles = cdiv(Tile(rows), segments.heights());
      const auto count = [&](const Tile& end) {
        segments.offsets(end) = end * rows;
        segments.first_tiles(table, end) = end * tiles;
      };
      if_(expert == 0, [&] { count(Tile(0)); });
      count(expert + 1);
    }
  }
};

}  // namespace tegula::kernels::experts
