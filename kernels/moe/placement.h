#pragma once
// Rows of choices: sorted by expert, then in order of their claims, by ranks of keys and scans.
// Everything is counted in integers, so that every run gives the same rows.
#include "kernels/moe/expert_tiles.h"
#include "tegula/kernels/moe.h"

namespace tegula::experts {

/// Tiles of tokens whose counts one program sums.
inline constexpr int kTilesPerGroup = 16;
/// How choices are counted: `experts`, k choices a token, `block` tokens at a time. The last
/// `shared` of both are of experts that all tokens go to: those have no capacity. By slots, all
/// first choices claim rows before all second ones.
struct PlacementShape {
  int experts = 1, k = 1, block = 16, shared = 0;
  bool has_capacity = false, by_slot = false;
  int group_tokens = 0;  ///< that compete for an expert's rows; 0: all

  /// Groups of tiles whose tokens compete, where they do so in groups.
  int groups_together() const { return group_tokens / (block * kTilesPerGroup); }
  /// How often they do, of so many groups of tiles.
  std::int64_t competitions(std::int64_t groups) const {
    return group_tokens == 0 ? 1 : (groups + groups_together() - 1) / groups_together();
  }
  int bins() const { return by_slot ? k * experts : experts; }
  int routed() const { return experts - shared; }
  /// Rows of the experts 0, 1, .. that so many choices claim.
  Tile sizes(const Tile& claims, const Tile& capacity) const;
  /// Whether choices of `expert` that are not the first ones, but number `place`, get a row.
  Tile has_room(const Tile& expert, const Tile& place, const Tile& capacity) const;
};

/// Tables that the placement is made by. Counts are of choices with equal keys: of each tile of
/// tokens, then, exclusive sums within a group of tiles; of each group, then, exclusive sums of the
/// groups in front. Of each competition for rows, `bases` [.., bins] are the rows of smaller slots,
/// and `kept` [.., experts] the rows that earlier competitions gave; both only where they are asked
/// for.
struct PlacementTables {
  InOut<i32, 2> counts, group_counts, bases, kept;
};
/// Rows of choices [tokens, k], -1 for those without; choices of rows [tokens * k].
struct PlacementRows {
  InOut<i32, 2> row_of;
  InOut<i32, 1> slot_of;
};
/// Tables of segments that a placement writes: offsets [experts + 1] of rows, and first_tiles
/// [kTileTables, experts + 1]: those of backward, and of forward's two products, whose tiles have
/// so many rows.
struct PlacementSegments {
  InOut<i32, 1> offsets;
  InOut<i32, 2> first_tiles;
  Scalar<i32> up_rows, down_rows;

  /// Writes the segments of experts with `sizes` rows.
  void write(const Tile& sizes) const;
  /// Rows of the tiles that each table counts: [kTileTables].
  Tile heights() const;
};

/// [tokens * k]: which rows a choice competes for; -1 for none.
Tile keys_of(const PlacementShape& shape, const Tile& ids);

class Placement {
 public:
  /// `capacity`: the most rows of an expert, where there is one.
  Placement(const PlacementShape& shape, const PlacementTables& tables,
            const PlacementSegments& segments, const Tile& capacity)
      : shape_(shape), tables_(tables), segments_(segments), capacity_(capacity) {}

  /// Number of tiles of tokens: those that `counts` has rows for.
  Tile tiles() const { return cast<i32>(tables_.counts.rows()); }
  Index tokens(const Tile& tile) const { return slice(tile * shape_.block, shape_.block); }
  /// Counts a tile's choices, and lets the last program of all make the tables: `arrivals`, 1 +
  /// groups counters that are 0.
  void count(const Tile& tile, const Tile& ids, const Tile& arrivals) const;
  /// Writes the rows of a tile's choices.
  void place(const Tile& tile, const Tile& ids, const PlacementRows& rows) const;

 private:
  Tile running_sums(const InOut<i32, 2>& table, const Tile& first, const Tile& end, Tile run) const;
  void sum_group(const Tile& group) const;
  void sum_groups(const Tile& groups) const;

  PlacementShape shape_;
  PlacementTables tables_;
  PlacementSegments segments_;
  Tile capacity_;
};

}  // namespace tegula::experts
