#pragma once
// Cases of the suites attention_masks and attention_scores.
#include <vector>

#include "bench/bench.h"

namespace tegula::bench {

std::vector<Case> attention_cases();

}  // namespace tegula::bench
