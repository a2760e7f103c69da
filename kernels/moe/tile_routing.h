#pragma once
// Kernels of routing whose programs add up the counts of all tiles of tokens themselves, so that
// nobody waits for a table: a launch for a tile, two for hundreds of them.
#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/moe/routing_kernels.h"

namespace tegula::experts {

/// Registers of a thread that the logits of a tile of tokens fill, and the most warps.
inline constexpr int kLogitsPerThread = 32, kMaxWarps = 16;
inline constexpr int kPlacingWarps = 8;  ///< of a program that places choices
/// Columns of counts: rows of a power of two are read by whole warps, two counts in a word.
constexpr int counted_experts(int experts) {
  return std::max(2, static_cast<int>(std::bit_ceil(static_cast<unsigned>(experts))));
}
/// Counts [tiles, counted_experts] of u16 as words.
inline Tensor pairs_of(const Tensor& counts) {
  return Tensor::borrow(counts.data(), {counts.size(0), counts.size(1) / 2}, DType::u32,
                        counts.device());
}
/// Warps of a program with a tile of `tokens` and `experts`.
constexpr int routing_warps(int tokens, int experts) {
  const auto elements =
      static_cast<std::int64_t>(tokens) * std::bit_ceil(static_cast<unsigned>(experts));
  return static_cast<int>(
      std::clamp<std::int64_t>(elements / (32 * kLogitsPerThread), 4, kMaxWarps));
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
      counts(tile, whole(counts.static_dim(1))) = cast<u16>(count);
      row_of(t, whole(shape.k)) = ranks.reshape({shape.block, shape.k});
    }
  }
};

/// Rows of what RouteTiles chose, of `tiles` tiles a program. `pairs`: pairs_of its counts.
struct PlaceTiles {
  PlacementShape shape;
  int tiles = 1;

  void operator()(InOut<i32, 2> ids, InOut<u32, 2> pairs, PlacementSegments segments,
                  PlacementRows rows, Scalar<i32> capacity) const {
    for (auto i : grid(tegula::rows(pairs), tiles)) {
      grid_launch_dependents();
      grid_dependency_wait();
      const Tile first = cast<i32>(i.first());
      const int tokens = tiles * shape.block;
      const Index t = slice(first * shape.block, tokens);
      const TileRows of(shape, ids(t, whole(shape.k)));
      const Tile ranks = ravel(rows.row_of(t, whole(shape.k)));
      const auto [before, total] = sums(pairs, first);
      Tile claimed = before, place = of.expert();
      if (tiles > 1) {
        const Tile own = words(pairs, slice(first, tiles)),
                   counts = interleave(lower(own), upper(own), 1);
        claimed = ravel(cumsum(counts, 0, {.exclusive = true}) + before(none, all));
        place = place +
                arange(tokens * shape.k) / (shape.block * shape.k) * counted_experts(shape.experts);
      }
      const Tile sizes = of.sizes(total, capacity);
      of.store(t, ranks + gather(claimed, place, 0), sizes, capacity, rows);
      if_(first == 0, [&] { segments.write(sizes); });
    }
  }

  /// The most choices of a token that sums of words have room for.
  static constexpr int most_choices(int block) { return 0xffff / (block * kRowsOfThread); }

 private:
  /// Rows of pairs that a thread adds up before it takes the two apart.
  static constexpr int kRowsOfThread = 32;
  struct Sums {
    Tile before, total;
  };
  static Tile words(const InOut<u32, 2>& pairs, const Index& rows) {
    return fill_absent(pairs(rows, whole(pairs.static_dim(1))), 0);
  }
  static Tile lower(const Tile& words) { return cast<i32>(words & 0xffff); }
  static Tile upper(const Tile& words) { return cast<i32>(words >> 16); }

  /// Counts of the tiles in front, and of all. As many rows are read at once as registers hold.
  Sums sums(const InOut<u32, 2>& pairs, const Tile& tile) const {
    constexpr int kSmallBlock = 16, kThreads = 32 * kPlacingWarps;
    const int columns = pairs.static_dim(1), of_thread = shape.block <= kSmallBlock ? 32 : 64,
              each = std::clamp(of_thread * kThreads / columns / kPlacingWarps, 1, kRowsOfThread);
    struct Halves {
      Tile lower, upper;
      void add(const Tile& rows) {  // [each, warps, columns]
        const Tile of_warps = sum(rows, 0);
        lower = lower + sum(PlaceTiles::lower(of_warps), 0);
        upper = upper + sum(PlaceTiles::upper(of_warps), 0);
      }
      Tile all() const { return interleave(lower, upper, 0); }
    };
    const Tile none_yet = zeros<i32>(columns);
    Halves before{none_yet, none_yet}, total = before;
    for (auto r : steps(pairs.rows(), each * kPlacingWarps)) {
      const auto by_warps = [&](const Tile& t) {
        return t.reshape({each, kPlacingWarps, columns});
      };
      const Tile rows = words(pairs, r);
      total.add(by_warps(rows));
      before.add(by_warps(where(r.indices()(all, none) < tile, rows, 0)));
    }
    return {before.all(), total.all()};
  }
};

}  // namespace tegula::experts
