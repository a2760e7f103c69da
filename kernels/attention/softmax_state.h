#pragma once
// Softmax state for each AttentionSpec::weighting: turns the scores of a tile into weights, and
// keeps state per row between kv blocks.
#include <variant>

#include "kernels/attention/online_softmax.h"
#include "kernels/attention/stick_breaking.h"

namespace tegula::kernels {

/// Weights are the scores: the accumulator is the only state.
struct UnnormalizedState {
  Tile acc;
};

using SoftmaxState = std::variant<OnlineSoftmax, StickBreaking, UnnormalizedState>;

/// Returns the initial state of the rows of a tile, before any key. `weights` is the type that
/// weights are rounded to.
SoftmaxState initial_softmax_state(AttentionNormalization weighting, Rescaling rescaling, int rows,
                                   int columns, DType weights);

/// Returns the score of a masked key.
float masked_score(AttentionNormalization weighting);

/// Returns the weights of one block of scores, which may be the `first`, and rescales the
/// accumulator for the MMA with the values. `factor` as in OnlineSoftmax.
Tile softmax_step(SoftmaxState& rows, const Tile& scores, const Tile& factor, const Tile& first);

/// Returns the accumulator of weights times values.
Tile& accumulator_of(SoftmaxState& rows);

}  // namespace tegula::kernels
