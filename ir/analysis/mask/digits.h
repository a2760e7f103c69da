#pragma once
// Quotients and remainders in a mask's expression as the digits of one number.
#include <optional>
#include <vector>

#include "ir/analysis/mask/domain.h"
#include "ir/analysis/mask/expr.h"

namespace tegula::ir {

/// Returns true for x / n and x >> n where n is a launch-time number.
bool is_division(const MaskExpr& expr, MaskNodeId id);

/// Returns true if `n` is a remainder, of any number, by the divisor of `division`.
bool is_remainder_by(const MaskExpr& expr, const MaskNode& n, const MaskNode& division);

/// Two terms of a form that together are factor * number: x / n * n + x % n is x.
struct MaskDigits {
  Linear::Term high, low;
  MaskNodeId number = 0;
  std::vector<MaskNodeId> exact;  ///< nodes that must not wrap for this to hold
};
std::optional<MaskDigits> find_digits(const MaskExpr& expr, const Linear& form);

}  // namespace tegula::ir
