#pragma once
// Softmax over blocks of scores in base 2 (Milakov and Gimelshein 2018): the state of each row
// between blocks, and the final normalization.
#include <optional>

#include "tegula/kernels/attention.h"
#include "tegula/value.h"

namespace tegula::kernels {

/// State of rows: the reference of the weights (the running maximum; close to it with lazy
/// rescaling; the largest score of the first block without rescaling), their sum, and the output
/// accumulator. Scores times `factor`, which is positive, are exponents of 2.
struct OnlineSoftmax {
  /// A finite maximum below all scores: exp2(-inf - kMinFiniteMax) is 0, not NaN.
  static constexpr float kMinFiniteMax = -1e30f;

  /// `weights` is the type that weights are rounded to.
  OnlineSoftmax(int rows, int columns, Rescaling rescaling, DType weights);

  /// Adds one block of scores, which may be the `first`, and rescales the output; returns the
  /// weights of the block. The product with the factor and the subtraction of the maximum are one
  /// fma.
  Tile step(const Tile& scores, const Tile& factor, const Tile& first);

  /// Returns true for rows whose sums or outputs, without rescaling, are so large or small that
  /// they, or weights in them, may have left the range of their type.
  Tile needs_recompute() const;

  Tile row_max, row_sum, acc;

 private:
  Tile reference(const Tile& scores) const;
  Tile rescaled_step(const Tile& scores, const Tile& factor);

  Rescaling rescaling_;
  DType weights_;
};

/// Final denominator of each row and its logarithm. Rows without keys give 0 and -inf.
class SoftmaxFinalizer {
 public:
  SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor);
  /// Adds a key with score `sink` and value 0 to the denominator.
  SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor, const Tile& sink);

  /// Returns the factor that normalizes outputs.
  Tile inv_row_sum() const;
  Tile lse() const;

 private:
  Tile row_max_, factor_, row_sum_, is_empty_;  ///< denominator: row_sum * 2^(row_max * factor)
  std::optional<Tile> acc_fraction_;            ///< rescales the outputs if the sink raises row_max
};
/// Returns the largest score of each row in natural units; -inf without keys.
Tile scaled_row_max(const OnlineSoftmax& s, const Tile& factor);

}  // namespace tegula::kernels
