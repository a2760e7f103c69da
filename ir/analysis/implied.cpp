// Represents comparisons as sums that are >= 0. One implies another if their difference is >= 0.
#include "ir/analysis/implied.h"

#include <algorithm>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/walk_depth.h"

namespace tegula::ir {
namespace {

constexpr std::uint32_t kOfValue = 0x80000000;  ///< keys of values, not of views' extents

}  // namespace

void Positions::add(const Positions& other, std::int64_t factor) {
  const auto sum = [&](auto& into, const auto& from) {
    for (const auto& [key, n] : from)
      if ((into[key] += factor * n) == 0) into.erase(key);
  };
  sum(terms, other.terms);
  sum(index, other.index);
  constant += factor * other.constant;
}

void Implications::add_scalar(Positions& to, Value v, std::int64_t factor, int depth) const {
  if (const auto c = constant_value(k_, v)) {
    to.constant += factor * *c;
    return;
  }
  const OpId def = k_[v].def;
  const auto atom = [&](Positions::Key key) {
    if ((to.terms[key] += factor) == 0) to.terms.erase(key);
  };
  if (!def || depth > kMaxWalkDepth) return atom({v.index | kOfValue, -1});
  const OpData& d = k_[def];
  using enum Opcode;
  const DType type = k_.type(v).dtype();
  if (size_bits(type) < 32 && d.opcode != Cast) return atom({v.index | kOfValue, -1});
  if (d.opcode == Cast && is_integer(k_.type(d.operands[0]).dtype()) &&
      holds_all_of(type, k_.type(d.operands[0]).dtype()))
    return add_scalar(to, d.operands[0], factor, depth + 1);
  if (d.is(Add, Sub)) {
    add_scalar(to, d.operands[0], factor, depth + 1);
    return add_scalar(to, d.operands[1], d.opcode == Sub ? -factor : factor, depth + 1);
  }
  if (d.opcode == Neg) return add_scalar(to, d.operands[0], -factor, depth + 1);
  if (d.opcode == ViewDim) {
    const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
    const std::int64_t fixed = k_.type(d.operands[0]).shape()[static_cast<std::size_t>(axis)];
    if (fixed == kDynamic) return atom({d.operands[0].index, axis});
    to.constant += factor * fixed;
    return;
  }
  atom({v.index | kOfValue, -1});
}

std::optional<Positions> Implications::positions(Value v) {
  const std::optional<AffineIndex> at = indices_.of(v);
  if (!at) return std::nullopt;
  Positions all;
  all.constant = at->start;
  for (std::size_t d = 0; d < at->factor.size(); ++d)
    if (at->factor[d] != 0) all.index[static_cast<int>(d)] = at->factor[d];
  for (Value s : at->plus) add_scalar(all, s, 1);
  for (Value s : at->minus) add_scalar(all, s, -1);
  return all;
}

/// Returns true if `known` >= 0 implies `wanted` >= 0.
bool Implications::follows(const Positions& known, const Positions& wanted, OpId at) const {
  Positions rest = wanted;
  rest.add(known, -1);
  if (!rest.index.empty() || rest.constant < 0) return false;
  return std::ranges::all_of(rest.terms, [&](const auto& term) {
    const auto& [key, factor] = term;
    if (factor < 0) return false;
    if (key.second >= 0) return true;
    Value v;
    v.index = key.first & ~kOfValue;
    return facts_.is_non_negative(v, at);
  });
}

bool Implications::compares(const OpData& cmp, bool when, const Positions& wanted, OpId at) {
  const auto left = positions(cmp.operands[0]), right = positions(cmp.operands[1]);
  if (!left || !right) return false;
  std::string_view pred = cmp.attrs.s(AttrName::pred);
  if (!when)
    pred = pred == "lt"   ? "ge"
           : pred == "ge" ? "lt"
           : pred == "le" ? "gt"
           : pred == "gt" ? "le"
           : pred == "ne" ? "eq"
                          : "ne";
  const auto from = [&](const Positions& more, const Positions& less, std::int64_t strict) {
    Positions known = more;
    known.add(less, -1);
    known.constant -= strict;
    return follows(known, wanted, at);
  };
  if (pred == "lt") return from(*right, *left, 1);
  if (pred == "gt") return from(*left, *right, 1);
  return ((pred == "le" || pred == "eq") && from(*right, *left, 0)) ||
         ((pred == "ge" || pred == "eq") && from(*left, *right, 0));
}

bool Implications::implies(Value condition, bool when, const Positions& wanted, OpId at,
                           int depth) {
  const OpId def = k_[condition].def;
  if (!def || depth > kMaxWalkDepth) return false;
  const OpData& d = k_[def];
  using enum Opcode;
  if (d.opcode == Cmp) return compares(d, when, wanted, at);
  if (d.opcode == Not) return implies(d.operands[0], !when, wanted, at, depth + 1);
  if (d.opcode == FillAbsent) return false;
  if (d.is(ExpandDims, Broadcast)) {
    Positions narrow = wanted;
    const Type from = k_.type(d.operands[0]);
    if (d.opcode == ExpandDims) {
      const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
      narrow.index.clear();
      for (const auto& [dim, factor] : wanted.index) {
        if (dim == axis) return false;
        narrow.index[dim > axis ? dim - 1 : dim] = factor;
      }
    } else {
      for (const auto& [dim, factor] : wanted.index)
        if (from.shape()[static_cast<std::size_t>(dim)] == 1) return false;
    }
    return implies(d.operands[0], when, narrow, at, depth + 1);
  }
  if (!d.is(And, Or)) return false;
  const auto side = [&](std::size_t i) {
    return implies(d.operands[i], when, wanted, at, depth + 1);
  };
  // A true conjunction implies both sides; a false one implies that one side is false.
  return (d.opcode == And) == when ? side(0) || side(1) : side(0) && side(1);
}

bool Implications::is_below(Value condition, bool when, int dim, Value offset, Value limit,
                            OpId at) {
  Positions wanted;
  wanted.constant = -1;
  wanted.index[dim] = -1;
  add_scalar(wanted, limit, 1);
  add_scalar(wanted, offset, -1);
  return implies(condition, when, wanted, at, 0);
}

bool Implications::is_not_negative(Value condition, bool when, int dim, Value offset, OpId at) {
  if (facts_.is_non_negative(offset, at)) return true;
  Positions wanted;
  wanted.index[dim] = 1;
  add_scalar(wanted, offset, 1);
  return implies(condition, when, wanted, at, 0);
}

}  // namespace tegula::ir
