#pragma once
// Stick breaking over blocks of keys (Tan et al. 2024, "Scaling Stick-Breaking Attention"): what is
// kept of each row between blocks.
#include "tegula/value.h"

namespace tegula {

/// Key j's weight is b(j) * product over k > j of (1 - b(k)), where b(j) = 1 / (1 + 2^-x(j)) and x
/// is scores times `factor`. Blocks come in ascending order: the accumulator is multiplied by the
/// weight that a block leaves.
struct StickBreaking {
  StickBreaking(int rows, int columns);

  /// Adds one block of scores, -inf for masked keys; returns the weights of the block. Products are
  /// sums of logarithms, so that none underflows early.
  Tile step(const Tile& scores, const Tile& factor);
  /// The natural logarithm of the weight that no key took.
  Tile log_remaining() const;

  Tile log2_remaining, acc;  ///< log2_remaining: logarithm to base 2
};

}  // namespace tegula
