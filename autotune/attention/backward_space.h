#pragma once
// Space of tiles of attention's backward pass.
#include "autotune/space.h"
#include "tegula/attention_backward_config.h"

namespace tegula::autotune {

using AttentionBackwardSpace = Space<AttentionBackwardProblem, AttentionBackwardConfig>;
const AttentionBackwardSpace& attention_backward_space();

}  // namespace tegula::autotune
