// Represents comparisons as sums that are >= 0. One implies another if their difference is >= 0.
#include "ir/analysis/implied.h"

#include <algorithm>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/walk_depth.h"

namespace tegula::ir {

std::optional<AffineIndex> Implications::position(Value v) {
  std::optional<AffineIndex> index = indices_.of(v);
  if (index) index->start = expanded(k_, index->start);
  return index;
}

AffineIndex Implications::element(Value condition, int dim, Value offset) const {
  AffineIndex index{Ints(k_.type(condition).shape().size(), 0), expanded(k_, offset)};
  index.factor[static_cast<std::size_t>(dim)] = 1;
  return index;
}

/// Returns true if `known` >= 0 implies `wanted` >= 0.
bool Implications::follows(const AffineIndex& known, const AffineIndex& wanted, OpId point) const {
  const auto rest = difference(k_, wanted, known);
  return rest && rest->is_uniform() && rest->start.constant >= 0 &&
         std::ranges::all_of(rest->start, [&](const ScalarSum::Term& t) {
           return t.factor > 0 && facts_.is_non_negative(t.symbol, point);
         });
}

bool Implications::compares(const OpData& cmp, bool when, const AffineIndex& wanted, OpId point) {
  const auto left = position(cmp.operands[0]), right = position(cmp.operands[1]);
  if (!left || !right) return false;
  std::string_view pred = cmp.attrs.s(AttrName::pred);
  if (!when)
    pred = pred == "lt"   ? "ge"
           : pred == "ge" ? "lt"
           : pred == "le" ? "gt"
           : pred == "gt" ? "le"
           : pred == "ne" ? "eq"
                          : "ne";
  const auto from = [&](const AffineIndex& more, const AffineIndex& less, std::int64_t strict) {
    const auto known = difference(k_, more, less);
    const auto start = known ? add(known->start, ScalarSum::number(-strict)) : std::nullopt;
    return start && follows({known->factor, *start}, wanted, point);
  };
  if (pred == "lt") return from(*right, *left, 1);
  if (pred == "gt") return from(*left, *right, 1);
  return ((pred == "le" || pred == "eq") && from(*right, *left, 0)) ||
         ((pred == "ge" || pred == "eq") && from(*left, *right, 0));
}

bool Implications::implies(Value condition, bool when, const AffineIndex& wanted, OpId point,
                           int depth) {
  const OpId def = k_[condition].def;
  if (!def || depth > kMaxWalkDepth) return false;
  const OpData& d = k_[def];
  using enum Opcode;
  if (d.opcode == Cmp) return compares(d, when, wanted, point);
  if (d.opcode == Not) return implies(d.operands[0], !when, wanted, point, depth + 1);
  if (d.opcode == FillAbsent) return false;
  if (d.is(ExpandDims, Broadcast)) {
    AffineIndex narrow = wanted;
    const auto moves = [&](std::size_t dim) { return wanted.factor[dim] != 0; };
    if (d.opcode == ExpandDims) {
      const auto axis = static_cast<std::size_t>(d.attrs.i(AttrName::axis));
      if (moves(axis)) return false;
      narrow.factor.erase(narrow.factor.begin() + static_cast<std::ptrdiff_t>(axis));
    } else {
      const auto from = k_.type(d.operands[0]).shape();
      for (std::size_t dim = 0; dim < from.size(); ++dim)
        if (from[dim] == 1 && moves(dim)) return false;
    }
    return implies(d.operands[0], when, narrow, point, depth + 1);
  }
  if (!d.is(And, Or)) return false;
  const auto side = [&](std::size_t i) {
    return implies(d.operands[i], when, wanted, point, depth + 1);
  };
  // A true conjunction implies both sides; a false one implies that one side is false.
  return (d.opcode == And) == when ? side(0) || side(1) : side(0) && side(1);
}

bool Implications::is_below(Value condition, bool when, int dim, Value offset, Value limit,
                            OpId point) {
  const auto last = add(expanded(k_, limit), ScalarSum::number(-1));
  const auto wanted =
      last ? difference(k_, {{}, *last}, element(condition, dim, offset)) : std::nullopt;
  return wanted && implies(condition, when, *wanted, point, 0);
}

bool Implications::is_not_negative(Value condition, bool when, int dim, Value offset, OpId point) {
  return facts_.is_non_negative(offset, point) ||
         implies(condition, when, element(condition, dim, offset), point, 0);
}

}  // namespace tegula::ir
