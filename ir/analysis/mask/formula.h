#pragma once
// A mask as a formula over conditions that can be solved for kv: the compile-time half of the
// closed form.
#include <limits>
#include <string>
#include <vector>

#include "ir/analysis/mask/domain.h"
#include "ir/analysis/mask/expr.h"

namespace tegula::ir {

inline constexpr std::int64_t kMinusInfinity = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kPlusInfinity = std::numeric_limits<std::int64_t>::max();

/// One step in solving a condition for kv: factor * symbol + rest. The symbol is kv itself, or a
/// division whose dividend the next step decomposes.
struct MaskStep {
  MaskNodeId symbol = 0;
  std::int64_t factor = 0;
  Linear rest;  ///< depends only on q and launch parameters
};

/// lo <= form <= hi.
struct MaskCondition {
  Linear form;
  Interval target;                ///< kMinusInfinity or kPlusInfinity if unbounded
  std::vector<MaskStep> steps;    ///< empty: independent of kv, or not solvable for kv
  std::vector<MaskNodeId> exact;  ///< nodes that must not wrap, so that the form equals their value
};

/// Formula without negations, which were moved into the conditions.
struct MaskFormula {
  enum class Kind : std::uint8_t {
    All,        ///< every part holds
    Any,        ///< some part holds
    Condition,  ///< conditions[index]
    Opaque,     ///< the i1 node `index`, or its negation
  };
  Kind kind = Kind::All;
  bool negated = false;  ///< true if an Opaque is negated
  std::uint32_t index = 0;
  std::vector<MaskFormula> parts;
};

/// Folds a formula over its parts: `ops.leaf` evaluates a condition or an opaque part,
/// `ops.constant` a formula that always or never holds, and `ops.both` and `ops.either` combine two
/// results.
template <class Ops>
auto fold(const MaskFormula& f, const Ops& ops) -> decltype(ops.leaf(f)) {
  if (f.kind == MaskFormula::Kind::Condition || f.kind == MaskFormula::Kind::Opaque)
    return ops.leaf(f);
  const bool all = f.kind == MaskFormula::Kind::All;
  auto sum = ops.constant(all);
  for (const MaskFormula& part : f.parts)
    sum = all ? ops.both(sum, fold(part, ops)) : ops.either(sum, fold(part, ops));
  return sum;
}

/// Classifies masks by the extent to which they can be decided (docs/masks.md).
enum class MaskClass : std::uint8_t {
  Interval,    ///< I: the kv of each query tile are a few intervals with closed-form ends
  Table,       ///< T: the same, with ends looked up in captured one-dimensional tables
  Congruence,  ///< C: depends on kv modulo something: blocks are classified, kv are not intervals
  Grid,        ///< G: kv is decoded into coordinates by division and remainder
  Data,        ///< D: depends on device memory, or on kv in an unsolved way
};
/// "I", "T", "C", "G" or "D".
std::string_view name(MaskClass c);

/// The closed form of a mask, and its class.
struct MaskClosedForm {
  MaskExpr expr;  ///< nodes of the mask, followed by nodes that the formula added
  std::vector<MaskCondition> conditions;
  MaskFormula formula;
  MaskClass mask_class = MaskClass::Interval;
  std::string reason;  ///< why the mask is in that class, for remarks
  /// True if a block list may decide blocks that conditions solved without tables do not decide.
  bool tells_blocks = false;
};

MaskClosedForm solve_mask(const MaskExpr& expr);

}  // namespace tegula::ir
