#pragma once
// Computations in two or more forms, a case each, to choose between by measuring: called
// "choice/form". `bench/sweep.py choices` times the forms of each beside each other.
#include <vector>

#include "bench/bench.h"

namespace tegula::bench {

/// Forms of one choice take the same tensors and give the same result, weights apart. Of attention
/// these are Q, K, V, O and one that is not looked at, then what the choice names; of products A, B
/// and C.
///
/// | choice | further tensors | forms |
/// |---|---|---|
/// | bias | bias [b, h, q, kv] | elements, tma, tma_narrow (fewer keys a step) |
/// | order | documents of positions, i32 | as_they_come, longest_first |
/// | decode | documents of positions, i32 | lists, all_keys |
/// | weights | - | softmax, sigmoid, sigmoid_narrow, sticks: not the same result |
/// | few_rows | C of bf16, 16 rows | mma, swapped, library |
/// | long_k | C of bf16 | whole, splits2, splits4, splits8, library |
/// | sums_in_memory | C of f32, which they add to | elements, tma |
void add_choices(std::vector<Case>& list);

}  // namespace tegula::bench
