#pragma once
// Host-side choices for an attention call before its kernel runs: tile shape and block lists.
#include <optional>

#include "kernels/attention/arguments.h"
#include "kernels/attention/kv_traversal.h"
#include "kernels/attention/list_args.h"
#include "kernels/attention/split_kv.h"
#include "kernels/attention/work_list.h"
#include "tegula/attention_tiles.h"
#include "tegula/functions.h"
#include "tegula/kernels/attention.h"
#include "tegula/stream.h"

namespace tegula::kernels {

/// A spec and the results of analysing its mask and score. A score that is -inf for some pairs is
/// split into a score and a mask, so the keys that it excludes can be skipped. If the spec defines
/// which keys are visited, the score is not split and is evaluated for each of them.
struct AttentionHeuristics {
  explicit AttentionHeuristics(const AttentionSpec& s, const AttentionSchedule& how = {},
                               const AttentionNumerics& how_exactly = {});

  /// Returns the requirements on tiles. Rows of packed heads are not consecutive positions.
  TileRequirements needs(std::int64_t dim, std::int64_t head_dim_v, bool pack_gqa) const;
  /// Returns the tile shape that the caller's lists or the schedule prescribe, or nothing if
  /// config() chooses it, as it does for derived lists.
  std::optional<AttentionTileShape> given_tiles() const;
  /// Returns the split-KV of a tile of kSmallQBlock queries: more than one program if there are
  /// many keys, and too few tiles to occupy all SMs.
  SplitKv split_kv(const AttentionCall& c) const;
  /// Returns whether `varlen` packs the heads of a group, or nothing to pack them if rows are few.
  std::optional<bool> packs_sequences() const;
  /// Returns the extents of the work list of a call with packed heads, or nothing if the call does
  /// not use one, as with a split_kv of 1. Paged calls use the caller's list, `varlen` its own.
  std::optional<WorkExtents> listed_work(const AttentionCall& c) const;
  /// Returns the most queries of a request of a mixed step that is processed by the step's work
  /// list: those whose rows fit in a tile with keys in M, at least one. `c` has no packed heads.
  std::int64_t few_queries(const AttentionCall& c) const;
  /// Returns the rows of a tile of a call whose products have keys in M, or nothing if rows are in
  /// M: softmax of so few rows per request or packed sequence that M would be mostly padding.
  std::optional<int> rows_in_n(const AttentionCall& c) const;
  /// Returns the keys of a block of a call whose keys are in M: 128 if two CTAs per SM have room.
  int keys_in_m(const AttentionCall& c) const;
  /// Returns the stages of each of two CTAs per SM of a call whose keys are in M, or 0 if an SM has
  /// room for one CTA.
  int paired_stages(const AttentionCall& c) const;
  /// Returns true if threads load the rows of packed queries one by one. Tiles have kSmallQBlock
  /// rows, however many a request has, or rows_in_n.
  bool gathers_rows(const AttentionCall& c) const;
  /// Returns the problem that the choice of tiles depends on, with or without split-KV.
  AttentionProblem problem(const AttentionCall& c, bool splits_kv = false) const;
  /// Returns the configuration of a call; the caller's choices are kept.
  AttentionConfig config(const AttentionCall& c, bool splits_kv = false) const;
  /// Returns true if the call visits block lists: those of the caller, those derived from the mask,
  /// or, where the model says that it pays, those that are made by evaluating an unsolved mask.
  /// Paged calls visit ranges.
  bool uses_block_list(const AttentionCall& c) const;
  /// Returns true if evaluating an unsolved mask for each pair of a call takes no longer than the
  /// visits that it is assumed to save.
  bool evaluation_pays(const AttentionCall& c) const;
  /// Returns the blocks of a list that is made for calls with such queries and keys.
  AttentionTileShape list_tiles(const AttentionCall& c) const;
  /// Returns the block lists of a call, undefined if it visits a range of keys.
  BlockListArgs lists(const Stream& stream, const AttentionCall& c,
                      const AttentionConfig& config) const;
  /// Same as above, but adds launches to the call's plan.
  BlockListSlots lists(PlanBuilder& plan, const AttentionSlots& slots, const AttentionCall& c,
                       const AttentionConfig& config) const;

  /// Returns true if the speculative pass visits the last block first.
  bool iterates_in_reverse() const;
  /// Returns the number of programs of the recompute kernel.
  int programs(const AttentionCall& c) const;

  /// Returns the rows of the query tiles of block lists.
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
  bool division_pays(const AttentionCall& c) const;
};

}  // namespace tegula::kernels
