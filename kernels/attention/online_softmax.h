#pragma once
// Softmax over blocks of scores in base 2 (Milakov and Gimelshein 2018): what is kept of each row
// between blocks, and what it is divided by at the end.
#include <optional>

#include "tegula/kernels/attention.h"
#include "tegula/value.h"

namespace tegula {

/// State of a row: the reference of its weights (the running maximum, nearly that with lazy
/// rescaling, the first block's largest score without any), their sum, and the accumulated output.
/// Scores times `factor`, which is positive, are exponents of 2.
struct OnlineSoftmax {
  /// A maximum below every score, yet finite: exp2(-inf - kMinFiniteMax) is 0, not NaN.
  static constexpr float kMinFiniteMax = -1e30f;

  /// Weights are rounded to the type.
  OnlineSoftmax(int rows, int columns, Rescaling rescaling, DType weights);

  /// Adds one block of scores, which may be the `first`, and rescales the output; returns the
  /// weights of the block. The multiplication by the factor is one fma with the subtraction of the
  /// maximum.
  Tile step(const Tile& scores, const Tile& factor, const Tile& first);

  /// Rows whose sums or outputs, without rescaling, are so large or small that they, or the weights
  /// in them, may have left the range of their type.
  Tile needs_recompute() const;

  Tile row_max, row_sum, acc;

 private:
  Tile reference(const Tile& scores) const;
  Tile rescaled_step(const Tile& scores, const Tile& factor);

  Rescaling rescaling_;
  DType weights_;
};

/// The denominator of each row at the end, and its logarithm. Rows without keys: 0 and -inf.
class SoftmaxFinalizer {
 public:
  SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor);
  /// With one more key in the denominator, whose score is `sink` and whose value is 0.
  SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor, const Tile& sink);

  /// Factor that normalizes outputs.
  Tile inv_row_sum() const;
  Tile lse() const;

 private:
  Tile row_max_, factor_, row_sum_, is_empty_;  ///< row_sum * 2^(row_max * factor)
  std::optional<Tile> acc_fraction_;            ///< fraction of the outputs in that sum
};
/// The largest score of each row in natural units; -inf without keys.
Tile scaled_row_max(const OnlineSoftmax& s, const Tile& factor);

}  // namespace tegula
