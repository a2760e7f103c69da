#pragma once
// Which conditions of a mask are limits of kv whose ends a kernel can compute for every tile of
// queries: the half of the closed range that is known when a kernel is traced.
#include <memory>
#include <optional>
#include <vector>

#include "dsl/signature.h"
#include "ir/analysis/mask_blocks.h"
#include "ir/analysis/mask_formula.h"
#include "tegula/value.h"

namespace tegula {

/// No position lies above: kernels whose tensors are larger compute indices in 64 bits, and the
/// rows of a tile that reach past its tensor do so by less than a block.
inline constexpr ir::Interval kMaskPositions{0, dsl::kSmallSpan + 1024};

class MaskLimits {
 public:
  using Numbers = std::vector<std::shared_ptr<detail::ScalarCell>>;
  MaskLimits(const ir::MaskClosedForm& form, const Numbers& numbers);

  /// kv < form if `is_upper`, else kv >= form. The form is of symbols that do not fall with q.
  struct Limit {
    ir::Linear form;
    bool is_upper;
  };
  /// Without both, nothing is known of the condition.
  struct Solution {
    std::optional<Limit> limit;
    std::optional<ir::Interval> truth;  ///< over all positions, of what is not solved for kv
  };
  Solution solve(const ir::MaskCondition& c) const;
  /// Bounds of a part of the formula that is not taken apart.
  ir::Interval truth_of_opaque(const ir::MaskFormula& f) const;

  /// True if for every tile of queries the visible keys are one interval, but for what no row of
  /// the tile sees alone, and its ends can be computed.
  bool is_one_interval() const { return shape(form_.formula).has_value(); }

  /// n where a node is q / n, and known to be positive.
  std::optional<std::int64_t> query_divisor(ir::MaskNodeId id) const;
  /// The Scalar behind a node; null if it is none of i32.
  std::shared_ptr<detail::ScalarCell> number(ir::MaskNodeId id) const;

 private:
  /// Which ends an interval of keys has; one without both holds all of them.
  struct Shape {
    bool has_lo = false, has_hi = false, is_empty = false;
  };
  std::optional<Shape> shape(const ir::MaskFormula& f) const;
  static std::optional<Shape> decided(ir::Interval truth);

  const ir::MaskNode& node(ir::MaskNodeId id) const { return form_.expr[id]; }
  ir::Interval truth(const ir::MaskCondition& c) const;
  std::optional<Limit> limit(const ir::MaskCondition& c) const;
  std::optional<std::int64_t> divisor(const ir::MaskCondition& c) const;
  std::optional<std::int64_t> positive_constant(ir::MaskNodeId id) const;
  bool is_symbol(ir::MaskNodeId id) const;

  const ir::MaskClosedForm& form_;
  const Numbers& numbers_;
  ir::MaskBlocks blocks_;
};

}  // namespace tegula
