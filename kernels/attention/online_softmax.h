#pragma once
// Softmax over blocks of scores in base 2 (Milakov and Gimelshein 2018): the state of each row
// between blocks, and the final normalization.
#include <optional>

#include "tegula/kernels/attention.h"
#include "tegula/value.h"

namespace tegula::kernels {

/// State of rows: the reference of the weights (the running maximum; close to it with lazy
/// rescaling; the largest score of the first block without rescaling), their sum, and the output
/// accumulator [rows, columns]. Scores [rows, keys] times `factor`, which is positive, are
/// exponents of 2. With keys in M, scores are [keys, rows] and the accumulator is [columns, rows]:
/// rows are in N of the MMAs, where 16 are enough.
struct OnlineSoftmax {
  /// A finite maximum below all scores: exp2(-inf - kMinFiniteMax) is 0, not NaN.
  static constexpr float kMinFiniteMax = -1e30f;

  /// `weights` is the type that weights are rounded to.
  OnlineSoftmax(int rows, int columns, Rescaling rescaling, DType weights);
  /// Returns the initial state with `keys` keys of a block in M. Until `with_rows_in_m`, `row_sum`
  /// is [keys, rows]: it is summed over the keys, which several warps share, once.
  static OnlineSoftmax with_keys_in_m(int keys, int rows, int columns, Rescaling rescaling);
  /// Returns the state with the accumulator as [rows, columns], after the last step.
  OnlineSoftmax with_rows_in_m() const;

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
  int keys_dim_ = 1;  ///< dimension of the keys in scores
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
