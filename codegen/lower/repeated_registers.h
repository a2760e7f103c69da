#pragma once
// Vectors that repeat registers, as broadcasts along registers do.
#include <optional>
#include <vector>

#include "codegen/lower/lowering.h"

namespace tegula::codegen {

struct RepeatedRegisters {
  std::vector<ir::Value> from;  ///< operands that the indices count through
  ir::Ints different;           ///< indices of the registers that differ, in ascending order
  ir::Ints of_element;          ///< for each element, the position of its register in `different`
};

/// Returns the registers of a vector that selects them from others.
std::optional<RepeatedRegisters> repeated_registers(const Lowering& l, ir::Value v);

}  // namespace tegula::codegen
