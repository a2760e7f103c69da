#pragma once
// Computations in two or more forms, to be compared by measurement. Each form is a case named
// "choice/form"; `bench/sweep.py choices` times the forms of a choice side by side.
#include <vector>

#include "bench/bench.h"

namespace tegula::bench {

/// Forms of one choice take the same tensors and give the same result, except for `weights`.
/// Attention takes Q, K, V, O, an unused tensor and the tensors that the choice names; products
/// take A, B and C.
///
/// | choice | further tensors | forms |
/// |---|---|---|
/// | bias | bias [b, h, q, kv] | elements, tma, tma_narrow (fewer keys per iteration) |
/// | order | documents of positions, i32 | as_they_come, longest_first |
/// | decode | documents of positions, i32 | lists, all_keys |
/// | weights | - | softmax, sigmoid, sigmoid_narrow, sticks: results differ |
/// | few_rows | C of bf16, 16 rows | mma, swapped, library |
/// | long_k | C of bf16 | whole, splits2, splits4, splits8, library |
/// | sums_in_memory | C of f32, to which the programs add | elements, tma |
void add_choices(std::vector<Case>& list);

}  // namespace tegula::bench
