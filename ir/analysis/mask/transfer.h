#pragma once
// Transfer functions of elementwise ops on abstract values.
#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/interval_rules.h"

namespace tegula::ir {

/// Evaluation of one node. A transfer function returns the mathematical result, before it wraps to
/// the node's type, or nothing if the result is unknown.
struct MaskTransfer {
  MaskBlocks& blocks;
  const MaskNode& node;
  MaskNodeId id;

  using Result = std::optional<MaskValue>;
  using Fn = Result (*)(MaskTransfer&);
  /// Returns the transfer function of an op, or null if there is none.
  static Fn of(Opcode op);

  const MaskValue& operand(std::size_t i) const { return blocks.values_[node.in[i]]; }
  DType dtype(std::size_t i) const { return blocks.expr_[node.in[i]].dtype; }

  /// Returns a value of which only the range and the stride are known.
  MaskValue value(Interval range, Congruence stride = {}) const {
    return {range, stride, Linear::symbol(id)};
  }
  MaskValue bounded(const Enclosure<WideInt>& bounds, Congruence stride = {}) const {
    return value(fitted(bounds).value_or(Interval{}), stride);
  }
  MaskValue constant(std::int64_t v) const {
    return {Interval::point(v), Congruence::point(v), Linear::number(v)};
  }
  Result sum(const MaskValue& a, const MaskValue& b, std::int64_t factor) const;
  Result scaled(const MaskValue& a, std::int64_t factor) const;
  Result plus(const MaskValue& a, std::int64_t constant) const;
  /// Returns bounds of a - b; terms that both have in common cancel exactly.
  MaskValue difference(const MaskValue& a, const MaskValue& b) const;
  Result smaller(const MaskValue& a, const MaskValue& b);
  Result larger(const MaskValue& a, const MaskValue& b);
  Result quotient(const MaskValue& a, std::int64_t divisor);
  Result remainder(const MaskValue& a, std::int64_t divisor);
  Result bits(Opcode op, const MaskValue& a, std::int64_t mask);
  void suggest(const MaskValue& v, std::optional<std::int64_t> threshold) const {
    blocks.suggest(v.form, threshold);
  }
};

}  // namespace tegula::ir
