#pragma once
// A score function that gives -inf for some pairs, as a mask and a score.
#include "tegula/kernels/attention.h"

namespace tegula {

/// The same attention, in which a score of `where(condition, x, -INFINITY)`, whose condition looks
/// at positions and tables but not at the score, is the score x under a mask: the keys that it
/// leaves out are then found, and not visited. A spec that says itself which keys are visited keeps
/// its score, which is asked about each of them.
AttentionSpec with_split_score(AttentionSpec spec);

}  // namespace tegula
