#pragma once
// Space of tiles for the GEMMs of experts' gradients.
#include "autotune/space.h"
#include "tegula/expert_gradient_config.h"

namespace tegula::autotune {

using ExpertGradientSpace = Space<ExpertGradientProblem, ExpertTileConfig>;
const ExpertGradientSpace& expert_gradient_space();

}  // namespace tegula::autotune
