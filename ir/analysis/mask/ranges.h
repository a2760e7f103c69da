#pragma once
// Ranges of kv that a query tile may attend to: the launch-time half of the closed form. No block
// is looked at.
#include <cstdint>
#include <span>
#include <vector>

#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/formula.h"

namespace tegula::ir {

/// Ascending intervals with gaps between them.
class IntervalSet {
 public:
  IntervalSet() = default;
  explicit IntervalSet(Interval one) { add(one); }

  bool empty() const { return parts_.empty(); }
  std::span<const Interval> parts() const { return parts_; }
  /// The smallest interval around all of it; it must not be empty.
  Interval hull() const { return {parts_.front().lo, parts_.back().hi}; }
  bool contains(Interval i) const;
  bool meets(Interval i) const;
  friend IntervalSet operator&(const IntervalSet& a, const IntervalSet& b);
  friend IntervalSet operator|(const IntervalSet& a, const IntervalSet& b);

 private:
  void add(Interval i);  ///< does not begin before the last one
  std::vector<Interval> parts_;
};

/// kv in [begin, end), all of one coverage.
struct KvSegment {
  std::int64_t begin, end;
  BlockCoverage coverage;
  friend bool operator==(KvSegment, KvSegment) = default;
};

/// The kv of one query tile.
struct KvVisibility {
  IntervalSet visible;  ///< no query attends to any other kv
  IntervalSet full;     ///< every query attends to these

  BlockCoverage of(std::int64_t kv0, std::int64_t kv1) const;
  /// All of [0, seqlen_kv) in blocks of `block`, neighbours of one coverage joined: for a causal
  /// mask full, partial, empty.
  std::vector<KvSegment> segments(std::int64_t seqlen_kv, std::int64_t block) const;
};

/// Bounds of a condition that is not solved for kv, over the block at hand, where nothing wraps.
Interval truth_of(const MaskCondition& c, const MaskBlocks& blocks);

/// Solves a mask for the kv of query tiles. Sound for every mask; for one of class I or T the ends
/// are tight in each condition. Keeps its working memory; not for several threads at once.
class MaskRanges {
 public:
  explicit MaskRanges(const MaskClosedForm& form) : form_(form), blocks_(form.expr) {}

  /// For queries [q0, q1) of one batch entry and head, and kv in [0, seqlen_kv).
  struct Tile {
    std::int64_t batch = 0, head = 0, q0 = 0, q1 = 0, seqlen_kv = 0;
  };
  KvVisibility cover(const Tile& tile, const MaskParams& params);

 private:
  struct Covers;
  KvVisibility of(const MaskCondition& c) const;
  KvVisibility decided(Interval truth) const;

  const MaskClosedForm& form_;
  MaskBlocks blocks_;
  MaskParams params_;  ///< parameters of the cover being computed
  Interval keys_;
};

}  // namespace tegula::ir
