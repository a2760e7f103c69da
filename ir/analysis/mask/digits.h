#pragma once
// Quotients and remainders in a mask's expression, as the digits of one number.
#include <optional>
#include <vector>

#include "ir/analysis/mask/domain.h"
#include "ir/analysis/mask/expr.h"

namespace tegula::ir {

/// x / n or x >> n, by a number of the launch.
bool is_division(const MaskExpr& expr, MaskNodeId id);

/// Whether `n` is a remainder by the divisor of `division`, of any number.
bool is_remainder_by(const MaskExpr& expr, const MaskNode& n, const MaskNode& division);

/// Two terms of a form that are factor * number: of x / n * n + x % n the number is x.
struct MaskDigits {
  Linear::Term high, low;
  MaskNodeId number = 0;
  std::vector<MaskNodeId> exact;  ///< nodes that must not wrap for that
};
std::optional<MaskDigits> find_digits(const MaskExpr& expr, const Linear& form);

}  // namespace tegula::ir
