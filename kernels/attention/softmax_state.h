#pragma once
// Softmax state by AttentionSpec::weighting: turns a tile's scores into weights, and keeps state
// per row between kv blocks.
#include <variant>

#include "kernels/attention/online_softmax.h"
#include "kernels/attention/stick_breaking.h"

namespace tegula {

/// Weights that are the scores: only their products with values are kept.
struct UnnormalizedState {
  Tile acc;
};

using SoftmaxState = std::variant<OnlineSoftmax, StickBreaking, UnnormalizedState>;

/// Initial state of a tile's rows, before any key. `weights` is the type that weights are rounded
/// to.
SoftmaxState initial_softmax_state(AttentionNormalization weighting, Rescaling rescaling, int rows,
                                   int columns, DType weights);

/// The score of a masked key.
float masked_score(AttentionNormalization weighting);

/// The weights of one block of scores, which may be the `first`; rescales the accumulator for their
/// products with values. `factor` as in OnlineSoftmax.
Tile softmax_step(SoftmaxState& rows, const Tile& scores, const Tile& factor, const Tile& first);

/// The accumulator of weights times values.
Tile& accumulator_of(SoftmaxState& rows);

}  // namespace tegula
