#pragma once
// What becomes of a tile's scores, as AttentionSpec::weighting says: weights of values, and what is
// kept of each row between blocks of keys.
#include <variant>

#include "kernels/attention/online_softmax.h"
#include "kernels/attention/stick_breaking.h"

namespace tegula {

/// Scores that are weights: only their products with values are kept.
struct ScoresAsWeights {
  Tile out;
};

using RowWeights = std::variant<OnlineSoftmax, StickBreaking, ScoresAsWeights>;

/// What is kept of the rows of a tile, before any key. `weights` is the type that weights are
/// rounded to.
RowWeights row_weights(Weighting weighting, Rescaling rescaling, int rows, int columns,
                       DType weights);

/// The score of a key that a row does not see.
float unseen_score(Weighting weighting);

/// The weights of one block of scores, which may be the `first`; what was summed up before is made
/// ready for their products with values. `factor` as of OnlineSoftmax.
Tile weigh(RowWeights& rows, const Tile& scores, const Tile& factor, const Tile& first);

/// The sums of weights times values so far.
Tile& sums_of(RowWeights& rows);

}  // namespace tegula
