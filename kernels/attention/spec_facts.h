#pragma once
// What attention decides about a call before its kernel runs: tiles, and lists of blocks.
#include <optional>

#include "kernels/attention/arguments.h"
#include "kernels/attention/block_sizes.h"
#include "kernels/attention/list_args.h"
#include "kernels/attention/split_keys.h"
#include "kernels/attention/way.h"
#include "tegula/functions.h"
#include "tegula/kernels/attention.h"
#include "tegula/stream.h"

namespace tegula {

/// Queries of the tile for few rows of packed heads.
inline constexpr int kFewRows = 64;

/// A spec, and what was found out about its mask and score. A score that gives -inf for some pairs
/// becomes a score under a mask: the keys that it leaves out are then found, and not visited. A
/// spec that says itself which keys are visited keeps its score, which is asked about each of them.
struct SpecFacts {
  explicit SpecFacts(const AttentionSpec& s, const AttentionSchedule& how = {},
                     const AttentionNumerics& how_exactly = {});

  /// Rows of packed heads are no positions one behind the other.
  TileNeeds needs(std::int64_t dim, std::int64_t value_dim, bool packs_heads) const;
  /// Of lists of the caller, or those that the spec asks for: not chosen by lengths. Derived lists
  /// are of tiles that are chosen here.
  std::optional<AttentionTiles> given_tiles() const;
  /// Rows of packed heads and of many sequences begin anywhere, and cost registers.
  TileForm form(const AttentionCall& c) const;
  AttentionTiles tiles(const AttentionCall& c) const;
  /// Whether all rows of packed heads fit a tile of half the size, kFewRows.
  static bool has_few_rows(const AttentionCall& c);
  /// What shares the keys of a tile of kFewRows queries: more than one program where tiles are so
  /// few that SMs would have none, and keys are many.
  KeySplits key_splits(const AttentionCall& c) const;
  /// Whether tiles that a derived list has visit most blocks come first. Unless the spec says:
  /// where that is worth a kernel that ranks them, and what heads next to each other share in the
  /// L2, which is where an SM has few tiles, and one may be long beside them
  /// (bench/results/sweeps/2026-11-23-h200-choices.jsonl, 2026-11-23-h200-document-order.jsonl).
  /// Rows of many sequences count as if they were one's.
  bool longest_first(const AttentionCall& c, const AttentionTiles& tiles) const;
  /// Without tensors where the call visits a range of keys.
  ListArgs lists(const Stream& stream, const AttentionCall& c, const AttentionTiles& tiles) const;

  /// Whether scores are relative to the first block's, and a second kernel follows, where no
  /// programs share keys.
  bool may_leave_doubts(const AttentionCall& c) const;
  /// If so: from the last block to the first.
  bool goes_backwards() const;
  /// For the second kernel.
  int programs(const AttentionCall& c) const;

  AttentionSpec spec;
  AttentionSchedule schedule;
  AttentionNumerics numerics;
  ScoreCost score;
  Way way;
};

}  // namespace tegula
