#pragma once
// Space of kernels over whole rows.
#include "autotune/space.h"
#include "tegula/row_config.h"

namespace tegula::autotune {

using RowSpace = Space<RowProblem, RowConfig>;
const RowSpace& row_space();

}  // namespace tegula::autotune
