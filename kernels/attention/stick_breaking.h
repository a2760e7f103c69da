#pragma once
// Stick breaking over blocks of keys (Tan et al. 2024, "Scaling Stick-Breaking Attention"): the
// state of each row between blocks.
#include "tegula/value.h"

namespace tegula::kernels {

/// The weight of key j is b(j) * product over k > j of (1 - b(k)), where b(j) = 1 / (1 + 2^-x(j))
/// and x is scores times `factor`. Blocks are added in ascending order: each multiplies the
/// accumulator by the weight that it leaves to earlier keys.
struct StickBreaking {
  StickBreaking(int rows, int columns);

  /// Adds one block of scores, -inf for masked keys; returns the weights of the block. Products are
  /// computed as sums of logarithms to prevent early underflow.
  Tile step(const Tile& scores, const Tile& factor);
  /// Returns the natural logarithm of the weight that remains after all keys.
  Tile log_remaining() const;

  Tile log2_remaining, acc;  ///< log2_remaining: logarithm to base 2
};

}  // namespace tegula::kernels
