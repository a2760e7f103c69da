#pragma once
// Routing kernels whose programs each add the counts of all tiles of tokens, so no program waits
// for a table: one launch for a single tile, two for up to hundreds of tiles.
#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/moe/routing_kernels.h"

namespace tegula::kernels::experts {

/// Registers per thread for the logits of a tile of tokens, and the maximum number of warps.
inline constexpr int kLogitsPerThread = 32, kMaxWarps = 16;
inline constexpr int kPlacingWarps = 8;  ///< warps of a program that places choices
/// Returns the columns of counts: a power of two; whole warps read a row, two counts per word.
constexpr int counted_experts(int experts) {
  return std::max(2, static_cast<int>(std::bit_ceil(static_cast<unsigned>(experts))));
}
/// Returns a view of the u16 counts [tiles, counted_experts] as 32-bit words.
inline Tensor pairs_of(const Tensor& counts) {
  return Tensor::borrow(counts.data(), {counts.size(0), counts.size(1) / 2}, DType::u32,
                        counts.device());
}
/// Returns the number of warps of a program that routes a tile of `tokens` to `experts`.
constexpr int routing_warps(int tokens, int experts) {
  const auto elements =
      static_cast<std::int64_t>(tokens) * std::bit_ceil(static_cast<unsigned>(experts));
  return static_cast<int>(
      std::clamp<std::int64_t>(elements / (32 * kLogitsPerThread), 4, kMaxWarps));
}

/// The placed choices of a tile, and the data from which their rows are computed.
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
  /// Stores the rows of choices. A row follows from the number of earlier choices of the same
  /// expert: `ranks` [tokens * k] within the tile and, if there are several tiles, `claimed` [tiles
  /// * experts] in earlier tiles.
  void store(const Index& tokens, const Tile& ranks, const std::optional<Tile>& claimed,
             const Tile& sizes, const Tile& capacity, const PlacementRows& rows) const {
    Tile is_kept = is_placed_, first = cumsum(sizes, 0, {.exclusive = true}), claims = ranks;
    if (shape_.has_capacity) {
      if (claimed) claims = claims + gather(*claimed, place_in(*claimed, sizes), 0);
      is_kept = is_placed_ && shape_.has_room(expert_, claims, capacity);
      first = gather(first, expert_, 0);
    } else if (claimed) {
      first = gather(*claimed + repeated(first, claimed->shape()[0]), place_in(*claimed, sizes), 0);
    } else {
      first = gather(first, expert_, 0);
    }
    const Tile row = where(is_kept, first + claims, -1);
    const std::int64_t choices = row.shape()[0];
    rows.row_of(tokens, whole(shape_.k)) = row.reshape({choices / shape_.k, shape_.k});
    rows.slot_of(row) = slice(tokens.first() * shape_.k, static_cast<int>(choices)).indices();
  }

 private:
  /// Returns the index of the counts of a choice's tile and expert.
  Tile place_in(const Tile& claimed, const Tile& sizes) const {
    if (claimed.shape() == sizes.shape()) return expert_;
    const auto choices = static_cast<int>(expert_.shape()[0]), of_tile = shape_.block * shape_.k;
    return expert_ + arange(choices) / of_tile * static_cast<int>(sizes.shape()[0]);
  }
  static Tile repeated(const Tile& line, std::int64_t extent) {
    if (line.shape()[0] == extent) return line;
    return ravel(broadcast(line(none, all), {extent / line.shape()[0], line.shape()[0]}));
  }

  const PlacementShape& shape_;
  Tile key_, is_placed_, expert_;
};

/// Routes all tokens in a single tile.
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
      const Tile sizes = shape.sizes(counts, capacity);
      of.store(t, ranks, {}, sizes, capacity, rows);
      segments.write(sizes);
    }
  }
};

/// Writes the choices of all tokens, the counts [tiles, counted_experts] of each tile of tokens,
/// and, in place of a choice's row, the number of earlier choices of the same expert in its tile.
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

/// Computes the rows of the choices of RouteTiles, `tiles` tiles per program. One extra program
/// writes the segments, so that no program does both. `pairs` is pairs_of its counts.
struct PlaceTiles {
  PlacementShape shape;
  int tiles = 1;

  void operator()(InOut<i32, 2> ids, InOut<u32, 2> pairs, PlacementSegments segments,
                  PlacementRows rows, Scalar<i32> capacity) const {
    const Tile programs = cdiv(cast<i32>(pairs.rows()), tiles);
    for (auto i : grid(GridSpace({programs + 1}), 1)) {
      grid_launch_dependents();
      grid_dependency_wait();
      const Tile program = cast<i32>(i.first()), first = program * tiles;
      const Index t = slice(first * shape.block, tiles * shape.block);
      const TileRows of(shape, ids(t, whole(shape.k)));
      const Tile ranks = ravel(rows.row_of(t, whole(shape.k)));
      std::optional<Tile> own;
      if (tiles > 1) own = counts_of(words(pairs, slice(first, tiles)), 1);
      const auto [before, total] = sums(pairs, first);
      const Tile claimed =
          own ? ravel(cumsum(*own, 0, {.exclusive = true}) + before(none, all)) : before;
      const Tile sizes = shape.sizes(total, capacity);
      if_(
          program < programs, [&] { of.store(t, ranks, claimed, sizes, capacity, rows); },
          [&] { segments.write(sizes); });
    }
  }

  /// Maximum choices per token for which packed 16-bit sums cannot overflow.
  static constexpr int most_choices(int block) { return 0xffff / (block * kRowsOfThread); }

 private:
  /// Rows of pairs that a thread adds before it unpacks the two counts.
  static constexpr int kRowsOfThread = 32;
  struct Sums {
    Tile before, total;
  };
  static Tile words(const InOut<u32, 2>& pairs, const Index& rows) {
    return fill_absent(pairs(rows, whole(pairs.static_dim(1))), 0);
  }
  /// Returns both counts of each word, interleaved along an axis.
  static Tile counts_of(const Tile& words, int axis) {
    return interleave(cast<i32>(words & 0xffff), cast<i32>(words >> 16), axis);
  }

  /// Returns counts of earlier tiles and of all. Loads as many rows at once as registers hold.
  Sums sums(const InOut<u32, 2>& pairs, const Tile& tile) const {
    constexpr int kSmallBlock = 16, kThreads = 32 * kPlacingWarps;
    const int columns = pairs.static_dim(1), of_thread = shape.block <= kSmallBlock ? 32 : 64,
              each = std::clamp(of_thread * kThreads / columns / kPlacingWarps, 1, kRowsOfThread);
    // Each warp's rows are added as packed words.
    Tile before = zeros<i32>(kPlacingWarps, 2 * columns), total = before;
    for (auto r : steps(pairs.rows(), each * kPlacingWarps)) {
      const auto of_warps = [&](const Tile& t) {
        return counts_of(sum(t.reshape({each, kPlacingWarps, columns}), 0), 1);
      };
      const Tile rows = words(pairs, r);
      total = total + of_warps(rows);
      before = before + of_warps(where(r.indices()(all, none) < tile, rows, 0));
    }
    // Reduces both at once to minimize barriers between the warps.
    const auto [of_earlier, of_all] = split(sum(join(before, total), 0));
    return {of_earlier, of_all};
  }
};

}  // namespace tegula::kernels::experts
