#pragma once
// Computes the kv ranges to which a query tile may attend: the launch-time half of the closed form.
// No blocks are classified.
#include <cstdint>
#include <span>
#include <vector>

#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/formula.h"

namespace tegula {

/// Disjoint intervals in ascending order, separated by gaps.
class IntervalSet {
 public:
  IntervalSet() = default;
  explicit IntervalSet(ir::Interval one) { add(one); }

  bool empty() const { return parts_.empty(); }
  std::span<const ir::Interval> parts() const { return parts_; }
  bool contains(ir::Interval i) const;
  bool meets(ir::Interval i) const;
  friend IntervalSet operator&(const IntervalSet& a, const IntervalSet& b);
  friend IntervalSet operator|(const IntervalSet& a, const IntervalSet& b);

 private:
  void add(ir::Interval i);  ///< must not begin before the last interval
  std::vector<ir::Interval> parts_;
};

/// The kv positions of one query tile.
struct KvVisibility {
  IntervalSet visible;  ///< contains all kv to which any query attends
  IntervalSet full;     ///< every query attends to all of these

  ir::BlockCoverage of(std::int64_t kv0, std::int64_t kv1) const;
};

/// Solves a mask for the kv of query tiles. The result is conservative for every mask; for classes
/// I and T, the ends are tight in each condition. Reuses working memory; not thread-safe.
class MaskRanges {
 public:
  explicit MaskRanges(const ir::MaskClosedForm& form) : form_(form), blocks_(form.expr) {}

  /// Queries [q0, q1) of one batch entry and head, and kv in [0, seqlen_kv).
  struct Tile {
    std::int64_t batch = 0, head = 0, q0 = 0, q1 = 0, seqlen_kv = 0;
  };
  KvVisibility cover(const Tile& tile, const ir::MaskParams& params);

 private:
  struct Covers;
  KvVisibility of(const ir::MaskCondition& c) const;
  KvVisibility decided(ir::Interval truth) const;

  const ir::MaskClosedForm& form_;
  ir::MaskBlocks blocks_;
  ir::MaskParams params_;  ///< of the cover that is being computed
  ir::Interval keys_;
};

}  // namespace tegula
