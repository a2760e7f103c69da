#pragma once
// Evaluates elementwise ops on known numbers, for passes and analyses.
#include <array>
#include <optional>
#include <span>

#include "ir/eval/cell.h"
#include "ir/kernel.h"

namespace tegula::ir {

/// Maximum number of operands of an elementwise op.
inline constexpr std::size_t kMaxElementwiseOperands = 3;

/// Computes the elements of an elementwise op's result. Each operand has the same number of
/// elements, or one. Returns false if the op is not elementwise or an element is poison.
bool evaluate_elementwise(const Kernel& k, const OpData& d,
                          std::span<const std::span<const Cell>> operands, std::span<Cell> result);

/// Returns the scalar result of an elementwise op if `get` returns a cell for each operand.
template <class Get>
std::optional<Cell> evaluate_scalar(const Kernel& k, const OpData& d, const Get& get) {
  const std::size_t n = d.operands.size();
  if (n > kMaxElementwiseOperands || !elementwise_fn(d.opcode)) return std::nullopt;
  std::array<Cell, kMaxElementwiseOperands> cells;
  std::array<std::span<const Cell>, kMaxElementwiseOperands> operands;
  for (std::size_t i = 0; i < n; ++i) {
    const std::optional<Cell> cell = get(d.operands[i]);
    if (!cell) return std::nullopt;
    cells[i] = *cell;
    operands[i] = std::span(&cells[i], 1);
  }
  Cell result;
  const bool is_known =
      evaluate_elementwise(k, d, std::span(operands).first(n), std::span(&result, 1));
  return is_known ? std::optional(result) : std::nullopt;
}

}  // namespace tegula::ir
