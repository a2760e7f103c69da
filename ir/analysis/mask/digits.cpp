#include "ir/analysis/mask/digits.h"

namespace tegula::ir {
namespace {

using Kind = MaskNode::Kind;

/// A quotient times a number, as a term of a form. The number is `times`, or the divisor itself.
struct High {
  MaskNodeId division;
  std::optional<std::int64_t> times;  ///< absent: the divisor, a launch-time number
  std::vector<MaskNodeId> exact;
};

std::optional<std::int64_t> divisor_of(const MaskExpr& expr, const MaskNode& division) {
  const MaskNode& by = expr[division.in[1]];
  if (by.kind != Kind::Const) return std::nullopt;
  if (division.opcode == Opcode::Div) return by.value;
  if (by.value < 0 || by.value > 30) return std::nullopt;
  return std::int64_t{1} << by.value;
}

/// Matches x / n with a constant n, or the product (x / n) * n.
std::optional<High> high_digit(const MaskExpr& expr, MaskNodeId id) {
  if (is_division(expr, id)) {
    const auto size = divisor_of(expr, expr[id]);
    return size ? std::optional(High{id, size, {id}}) : std::nullopt;
  }
  const MaskNode& n = expr[id];
  if (!n.is_op(Opcode::Mul)) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const MaskNode& division = expr[n.in[i]];
    if (division.is_op(Opcode::Div) && is_division(expr, n.in[i]) && division.in[1] == n.in[1 - i])
      return High{n.in[i], std::nullopt, {n.in[i], id}};
  }
  return std::nullopt;
}

/// Returns true if y is x / m and `division` is x / (m * n) for positive constants m and n, so that
/// `division` equals y / n.
bool divides_further(const MaskExpr& expr, const MaskNode& division, MaskNodeId y, std::int64_t n) {
  if (!is_division(expr, y) || expr[y].in[0] != division.in[0]) return false;
  const auto m = divisor_of(expr, expr[y]), whole = divisor_of(expr, division);
  if (!m || !whole || *m <= 0 || n <= 0 || expr[y].opcode != division.opcode) return false;
  return checked_mul(*m, n) == whole;
}

/// Returns the modulus of `n` if it is a remainder by a constant of the same kind as `division`.
/// Quotients and remainders of negative numbers round towards 0, shifts and bit masks round down,
/// so only operations of the same kind are digits of one number.
std::optional<std::int64_t> modulus_of(const MaskExpr& expr, const MaskNode& n,
                                       const MaskNode& division) {
  if (n.kind != Kind::Op || n.operands != 2 || expr[n.in[1]].kind != Kind::Const)
    return std::nullopt;
  const std::int64_t by = expr[n.in[1]].value;
  if (division.opcode == Opcode::Div)
    return n.opcode == Opcode::Rem ? std::optional(by) : std::nullopt;
  const bool is_mask = n.opcode == Opcode::And && by > 0 && ((by + 1) & by) == 0;
  return is_mask ? std::optional(by + 1) : std::nullopt;
}

bool are_digits(const MaskExpr& expr, const High& high, Linear::Term of_high, Linear::Term low) {
  const MaskNode &division = expr[high.division], &n = expr[low.symbol];
  if (n.kind != Kind::Op || n.operands != 2) return false;
  if (n.in[0] == division.in[0] && is_remainder_by(expr, n, division))
    return !high.times ? of_high.factor == low.factor
                       : checked_mul(low.factor, *high.times) == of_high.factor;
  const auto modulus = modulus_of(expr, n, division);
  return high.times && modulus && checked_mul(low.factor, *modulus) == of_high.factor &&
         divides_further(expr, division, n.in[0], *modulus);
}

}  // namespace

bool is_division(const MaskExpr& expr, MaskNodeId id) {
  const MaskNode& n = expr[id];
  return (n.is_op(Opcode::Div) || n.is_op(Opcode::Shr)) &&
         !expr.depends(n.in[1], kOnKey | kOnQuery | kOnTable | kOnUnknown);
}

bool is_remainder_by(const MaskExpr& expr, const MaskNode& n, const MaskNode& division) {
  if (division.opcode == Opcode::Div) return n.is_op(Opcode::Rem) && n.in[1] == division.in[1];
  const MaskNode& bits = expr[division.in[1]];
  if (!n.is_op(Opcode::And)) return false;
  const MaskNode& mask = expr[n.in[1]];
  return bits.kind == Kind::Const && mask.kind == Kind::Const && bits.value >= 0 &&
         bits.value < 31 && mask.value == (std::int64_t{1} << bits.value) - 1;
}

std::optional<MaskDigits> find_digits(const MaskExpr& expr, const Linear& form) {
  for (const Linear::Term a : form) {
    const auto high = high_digit(expr, a.symbol);
    if (!high) continue;
    for (const Linear::Term b : form)
      if (a.symbol != b.symbol && are_digits(expr, *high, a, b))
        return MaskDigits{a, b, expr[b.symbol].in[0], high->exact};
  }
  return std::nullopt;
}

}  // namespace tegula::ir
