#pragma once
// Classifies the blocks of the (q, kv) plane under a mask as empty, full or partial by interval
// analysis of the mask expression with three-valued logic. Nothing is sampled: Empty and Full hold
// for every element, and an undecided block is Partial.
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/analysis/mask/domain.h"
#include "ir/analysis/mask/expr.h"
#include "ir/analysis/mask/table.h"

namespace tegula::ir {

enum class BlockCoverage : std::uint8_t { Empty, Partial, Full };

/// Queries [q0, q1) and keys [kv0, kv1) of one batch entry and head.
struct MaskBlock {
  std::int64_t batch = 0, head = 0;
  std::int64_t q0 = 0, q1 = 0, kv0 = 0, kv1 = 0;
};

/// Abstract value of a node over the current block.
struct MaskValue {
  Interval range;
  Congruence stride;
  Linear form;  ///< equal to the value at every element
};

/// Evaluates one mask over blocks. Keeps its working memory, so that one object serves many blocks.
/// Not thread-safe.
class MaskBlocks {
 public:
  explicit MaskBlocks(const MaskExpr& expr);

  /// Classifies a block. An undecided block is cut where the expression changes its form (a
  /// boundary of a division, or of a comparison with one axis), at most `cuts` times; without cuts
  /// fewer blocks are decided.
  BlockCoverage classify(const MaskBlock& block, const MaskParams& params, int cuts = 32);

  /// Evaluates every node over non-empty closed ranges; `value` and `may_overflow` refer to the
  /// last evaluation.
  struct Ranges {
    Interval batch, head, query, key;
  };
  void evaluate(const Ranges& ranges, const MaskParams& params);
  const MaskValue& value(MaskNodeId id) const { return values_[id]; }
  /// Returns true if the operation may leave the range of its type, so that its value may differ
  /// from the mathematical one.
  bool may_overflow(MaskNodeId id) const { return wraps_[id]; }
  const MaskExpr& expr() const { return expr_; }

  /// Returns bounds of a linear form over the current block.
  std::optional<Interval> range_of(const Linear& form) const;

 private:
  friend struct MaskTransfer;
  BlockCoverage refine(const Ranges& ranges, const MaskParams& params, int& cuts);
  void finish(MaskNodeId id, std::optional<MaskValue> v);
  MaskValue leaf(const MaskNode& node, MaskNodeId id, const Ranges& ranges,
                 const MaskParams& params) const;
  MaskValue look_up(const MaskNode& node, MaskNodeId id, const MaskParams& params);
  Congruence stride_of(const Linear& form) const;
  /// Adds the information that the linear form implies.
  void reduce(MaskValue& v) const;
  /// Suggests a cut where the form reaches `threshold`, if the cut is at a position of one axis.
  void suggest(const Linear& form, std::optional<std::int64_t> threshold);

  const MaskExpr& expr_;
  std::vector<MaskValue> values_;
  std::vector<bool> wraps_;
  MaskNodeId current_ = 0;                           ///< node that is being evaluated
  std::optional<std::int64_t> cut_query_, cut_key_;  ///< first element of the second part
};

}  // namespace tegula::ir
