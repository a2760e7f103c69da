#pragma once
// Assigns rows to choices: sorted by expert, then in order of their claims, by ranks of keys and
// scans. All counts are integers, so rows are the same in every run.
#include "kernels/moe/expert_tiles.h"
#include "tegula/kernels/moe.h"

namespace tegula::kernels::experts {

/// Tiles of tokens whose counts are summed by one program.
inline constexpr int kTilesPerGroup = 16;
/// Parameters of counting: `experts`, k choices per token, `block` tokens per tile. The last
/// `shared` experts and choices are those of shared experts, which process all tokens and have no
/// capacity. With `by_slot`, all first choices claim rows before all second ones.
struct PlacementShape {
  int experts = 1, k = 1, block = 16, shared = 0;
  bool has_capacity = false, by_slot = false;
  int group_tokens = 0;  ///< tokens that compete for an expert's rows; 0: all

  /// Returns the number of tile groups whose tokens compete with each other, if group_tokens > 0.
  int groups_together() const { return group_tokens / (block * kTilesPerGroup); }
  /// Returns the number of such competitions among `groups` groups of tiles.
  std::int64_t competitions(std::int64_t groups) const {
    return group_tokens == 0 ? 1 : (groups + groups_together() - 1) / groups_together();
  }
  int bins() const { return by_slot ? k * experts : experts; }
  int routed() const { return experts - shared; }
  /// Returns the rows of each expert from the number of choices that claim them.
  Tile sizes(const Tile& claims, const Tile& capacity) const;
  /// Returns true if a choice of `expert` with claim number `place` (from 0) gets a row.
  Tile has_room(const Tile& expert, const Tile& place, const Tile& capacity) const;
};

/// Tables of the placement. Counts are numbers of choices with equal keys: per tile of tokens,
/// replaced by exclusive sums within a group of tiles; then per group, replaced by exclusive sums
/// over the groups. Per competition for rows, `bases` [.., bins] are the rows of smaller slots, and
/// `kept` [.., experts] the rows assigned by earlier competitions; both are written only if they
/// are needed.
struct PlacementTables {
  InOut<i32, 2> counts, group_counts, bases, kept;
};
/// Rows of choices [tokens, k], -1 for dropped ones, and choices of rows [tokens * k].
struct PlacementRows {
  InOut<i32, 2> row_of;
  InOut<i32, 1> slot_of;
};
/// Segment tables that a placement writes: offsets [experts + 1] of rows, and first_tiles
/// [kTileTables, experts + 1]: two tables for the backward pass, and one for each forward GEMM,
/// whose tiles have up_rows and down_rows rows.
struct PlacementSegments {
  InOut<i32, 1> offsets;
  InOut<i32, 2> first_tiles;
  Scalar<i32> up_rows, down_rows;

  /// Writes the segments of experts with `sizes` rows.
  void write(const Tile& sizes) const;
  /// Returns the rows of the tiles that each table counts: [kTileTables].
  Tile heights() const;
};

/// Returns [tokens * k] keys, which identify the rows that a choice competes for; -1 for none.
Tile keys_of(const PlacementShape& shape, const Tile& ids);

class Placement {
 public:
  /// `capacity` is the maximum number of rows per expert, if it is limited.
  Placement(const PlacementShape& shape, const PlacementTables& tables,
            const PlacementSegments& segments, const Tile& capacity)
      : shape_(shape), tables_(tables), segments_(segments), capacity_(capacity) {}

  /// Returns the number of tiles of tokens, which is the number of rows of `counts`.
  Tile tiles() const { return cast<i32>(tables_.counts.rows()); }
  Index tokens(const Tile& tile) const { return slice(tile * shape_.block, shape_.block); }
  /// Counts a tile's choices; the last program to arrive computes the tables. `arrivals` points to
  /// 1 + groups counters that are 0.
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

}  // namespace tegula::kernels::experts
