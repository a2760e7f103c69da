#pragma once
// Heuristics that attention applies to a call before its kernel runs: tile shape, and block lists.
#include <optional>

#include "kernels/attention/arguments.h"
#include "kernels/attention/kv_traversal.h"
#include "kernels/attention/list_args.h"
#include "kernels/attention/split_kv.h"
#include "kernels/attention/tile_shapes.h"
#include "tegula/functions.h"
#include "tegula/kernels/attention.h"
#include "tegula/stream.h"

namespace tegula {

/// Queries of the tile for few rows of packed heads.
inline constexpr int kSmallQBlock = 64;

/// A spec, and what was found out about its mask and score. A score that gives -inf for some pairs
/// becomes a score under a mask: the keys that it leaves out are then found, and not visited. A
/// spec that says itself which keys are visited keeps its score, which is asked about each of them.
struct AttentionHeuristics {
  explicit AttentionHeuristics(const AttentionSpec& s, const AttentionSchedule& how = {},
                               const AttentionNumerics& how_exactly = {});

  /// Rows of packed heads are not consecutive positions.
  TileRequirements needs(std::int64_t dim, std::int64_t head_dim_v, bool pack_gqa) const;
  /// Tile shape of the caller's lists, or the one that the spec asks for: not chosen by lengths.
  /// Derived lists use tiles that are chosen here.
  std::optional<AttentionTileShape> given_tiles() const;
  /// Rows of packed heads and of many sequences begin anywhere, and cost registers.
  TileShapeClass form(const AttentionCall& c) const;
  AttentionTileShape tiles(const AttentionCall& c) const;
  /// Whether all rows of packed heads fit a tile of half the size, kSmallQBlock.
  static bool is_small_q(const AttentionCall& c);
  /// Split-KV of a tile of kSmallQBlock queries: more than one program if tiles are so few that SMs
  /// would have none, and keys are many.
  SplitKv split_kv(const AttentionCall& c) const;
  /// Whether tiles that a derived list has visit most blocks come first. Unless the spec says:
  /// where that is worth a kernel that ranks them, and what heads next to each other share in the
  /// L2, which is where an SM has few tiles, and one may be long beside them
  /// (bench/results/sweeps/2026-11-23-h200-choices.jsonl, 2026-11-23-h200-document-order.jsonl).
  /// Rows of many sequences count as if they were one's.
  bool longest_first(const AttentionCall& c, const AttentionTileShape& tiles) const;
  /// Without tensors where the call visits a range of keys.
  BlockListArgs lists(const Stream& stream, const AttentionCall& c,
                      const AttentionTileShape& tiles) const;

  /// Whether scores are relative to the first block's maximum and a recompute kernel follows,
  /// without split-KV.
  bool uses_speculative_softmax(const AttentionCall& c) const;
  /// If so: from the last block to the first.
  bool iterates_in_reverse() const;
  /// For the second kernel.
  int programs(const AttentionCall& c) const;

  AttentionSpec spec;
  AttentionSchedule schedule;
  AttentionNumerics numerics;
  ScoreTraits score;
  KvTraversal traversal;
};

}  // namespace tegula
