#pragma once
// Space of tiles for experts' GEMMs.
#include "autotune/space.h"
#include "tegula/expert_config.h"

namespace tegula::autotune {

using ExpertSpace = Space<ExpertProblem, ExpertTileConfig>;
const ExpertSpace& expert_space();

}  // namespace tegula::autotune
