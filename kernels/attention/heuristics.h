#pragma once
// Heuristics that attention applies to a call before its kernel runs: tile shape, and block lists.
#include <optional>

#include "kernels/attention/arguments.h"
#include "kernels/attention/kv_traversal.h"
#include "kernels/attention/list_args.h"
#include "kernels/attention/split_kv.h"
#include "tegula/attention_tiles.h"
#include "tegula/functions.h"
#include "tegula/kernels/attention.h"
#include "tegula/stream.h"

namespace tegula {

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
  /// Split-KV of a tile of kSmallQBlock queries: more than one program if tiles are so few that SMs
  /// would have none, and keys are many.
  SplitKv split_kv(const AttentionCall& c) const;
  /// The problem that the choice of tiles depends on, for a call whose keys are split or not.
  AttentionProblem problem(const AttentionCall& c, bool splits_kv = false) const;
  /// The configuration of a call, as far as the caller has left it open.
  AttentionConfig config(const AttentionCall& c, bool splits_kv = false) const;
  /// Without tensors where the call visits a range of keys.
  BlockListArgs lists(const Stream& stream, const AttentionCall& c,
                      const AttentionConfig& config) const;
  /// The same as launches of the call's plan.
  BlockListSlots lists(PlanBuilder& plan, const AttentionSlots& slots, const AttentionCall& c,
                       const AttentionConfig& config) const;

  /// For scores relative to the first block's maximum: from the last block to the first.
  bool iterates_in_reverse() const;
  /// For the second kernel.
  int programs(const AttentionCall& c) const;

  /// The rows of the tiles that lists are made for.
  QueryTileRows list_rows(const AttentionCall& c, const AttentionConfig& config) const;

  AttentionSpec spec;
  AttentionSchedule schedule;
  AttentionNumerics numerics;
  ScoreTraits score;
  KvTraversal traversal;

 private:
  AskedFor speculation(const AttentionCall& c) const;
  bool speculation_pays(const AttentionCall& c) const;
  bool has_boxes(const AttentionCall& c) const;
};

}  // namespace tegula
