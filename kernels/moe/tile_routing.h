#pragma once
// Kernels of routing whose programs add up the counts of all tiles of tokens themselves, so that
// nobody waits for a table: a launch for a tile, two for hundreds of them.
#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/moe/routing_kernels.h"

namespace tegula::experts {

/// Registers of a thread that the logits of a tile of tokens fill, and the most warps.
inline constexpr int kLogitsPerThread = 32, kMostWarps = 16;
inline constexpr int kPlacingWarps = 8;  ///< of a program that places choices
/// Columns of counts: rows of a power of two are read by whole warps.
constexpr int counted_experts(int experts) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(experts)));
}
/// Warps of a program with a tile of `tokens` and `experts`.
constexpr int routing_warps(int tokens, int experts) {
  const auto elements =
      static_cast<std::int64_t>(tokens) * std::bit_ceil(static_cast<unsigned>(experts));
  return static_cast<int>(
      std::clamp<std::int64_t>(elements / (32 * kLogitsPerThread), 4, kMostWarps));
}

/// Choices that have an expert, and what each needs for its row.
class TileRows {
 public:
  /// `ids` [tokens, k].
  TileRows(const PlacementShape& shape, const Tile& ids)
      : shape_(shape),
        key_(keys_of(shape, ids)),
        is_placed_(key_ >= 0),
        expert_(where(is_placed_, key_, 0)) {}

  const Tile& key() const { return key_; }
  const Tile& expert() const { return expert_; }
  /// Rows of experts with `counts` choices.
  Tile sizes(const Tile& counts, const Tile& capacity) const {
    return shape_.has_capacity ? min(counts, capacity) : counts;
  }
  /// Stores rows of choices in front of which `claims` [tokens * k] others chose the same expert.
  void store(const Index& tokens, const Tile& claims, const Tile& sizes, const Tile& capacity,
             const PlacementRows& rows) const {
    const Tile is_kept = shape_.has_capacity ? is_placed_ && claims < capacity : is_placed_;
    const Tile offsets = cumsum(sizes, 0, {.exclusive = true});
    const Tile row = where(is_kept, gather(offsets, expert_, 0) + claims, -1);
    const std::int64_t choices = row.dim(0);
    rows.row_of(tokens, whole(shape_.k)) = row.reshape({choices / shape_.k, shape_.k});
    rows.slot_of(row) = slice(tokens.first() * shape_.k, static_cast<int>(choices)).indices();
  }

 private:
  const PlacementShape& shape_;
  Tile key_, is_placed_, expert_;
};

/// All of routing where one tile has all tokens.
struct RouteOneTile {
  TokenChoices choices;

  void operator()(In<f32, 2> logits, std::optional<In<f32, 1>> bias, PlacementSegments segments,
                  InOut<i32, 2> ids, InOut<f32, 2> weights, PlacementRows rows,
                  Scalar<i32> capacity) const {
    const PlacementShape& shape = choices.shape;
    for (auto i : grid(GridSpace({1}), 1)) {
      grid_launch_dependents();
      grid_dependency_wait();
      const Index t = slice(cast<i32>(i.first()) * shape.block, shape.block);
      const auto [weight, id] = choices.of(logits, bias, t);
      ids(t, whole(shape.k)) = id, weights(t, whole(shape.k)) = weight;
      const TileRows of(shape, id);
      const auto [ranks, counts] = key_ranks(of.key(), shape.experts);
      const Tile sizes = of.sizes(counts, capacity);
      of.store(t, ranks, sizes, capacity, rows);
      segments.write(sizes);
    }
  }
};

/// Choices of every token; counts [tiles, counted_experts] of each tile of tokens; and, where its
/// row will stand, how many choices in front of one in its tile have the same expert.
struct RouteTiles {
  TokenChoices choices;

  void operator()(In<f32, 2> logits, std::optional<In<f32, 1>> bias, InOut<u16, 2> counts,
                  InOut<i32, 2> ids, InOut<f32, 2> weights, InOut<i32, 2> row_of) const {
    const PlacementShape& shape = choices.shape;
    for (auto i : grid(rows(counts), 1)) {
      grid_launch_dependents();
      grid_dependency_wait();
      const Tile tile = cast<i32>(i.first());
      const Index t = slice(tile * shape.block, shape.block);
      const auto [weight, id] = choices.of(logits, bias, t);
      ids(t, whole(shape.k)) = id, weights(t, whole(shape.k)) = weight;
      const int bins = counted_experts(shape.experts);
      const auto [ranks, count] = key_ranks(keys_of(shape, id), bins);
      counts(tile, whole(bins)) = cast<u16>(count);
      row_of(t, whole(shape.k)) = ranks.reshape({shape.block, shape.k});
    }
  }
};

/// Rows of what RouteTiles chose, of `tiles` tiles a program.
struct PlaceTiles {
  PlacementShape shape;
  int tiles = 1;

  void operator()(InOut<i32, 2> ids, InOut<u16, 2> counts, PlacementSegments segments,
                  PlacementRows rows, Scalar<i32> capacity) const {
    for (auto i : grid(tegula::rows(counts), tiles)) {
      grid_launch_dependents();
      grid_dependency_wait();
      const Tile first = cast<i32>(i.first());
      const int tokens = tiles * shape.block;
      const Index t = slice(first * shape.block, tokens);
      const TileRows of(shape, ids(t, whole(shape.k)));
      const Tile ranks = ravel(rows.row_of(t, whole(shape.k)));
      const auto [before, total] = sums(counts, first);
      Tile claimed = before, place = of.expert();
      if (tiles > 1) {
        const Tile own = counts_of(counts, slice(first, tiles));
        claimed = ravel(cumsum(own, 0, {.exclusive = true}) + before(none, all));
        place = place + arange(tokens * shape.k) / (shape.block * shape.k) * columns();
      }
      const Tile sizes = of.sizes(total, capacity);
      of.store(t, ranks + gather(claimed, place, 0), sizes, capacity, rows);
      if_(first == 0, [&] { segments.write(sizes); });
    }
  }

 private:
  struct Sums {
    Tile before, total;
  };
  int columns() const { return counted_experts(shape.experts); }
  Tile counts_of(const InOut<u16, 2>& counts, const Index& rows) const {
    return cast<i32>(fill_absent(counts(rows, whole(columns())), 0));
  }
  /// Counts of the tiles in front, and of all. As many rows are read at once as registers hold.
  Sums sums(const InOut<u16, 2>& counts, const Tile& tile) const {
    constexpr int kMostRows = 256, kSmallBlock = 16;
    const int of_thread = shape.block <= kSmallBlock ? 64 : 128,
              rows = std::clamp(of_thread * 32 * kPlacingWarps / columns(), 2, kMostRows);
    Tile before = zeros<i32>(columns()), total = before;
    for (auto r : steps(counts.rows(), rows)) {
      const Tile c = counts_of(counts, r);
      total = total + sum(c, 0);
      before = before + sum(where(r.indices()(all, none) < tile, c, 0), 0);
    }
    return {before, total};
  }
};

}  // namespace tegula::experts
