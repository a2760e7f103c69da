#pragma once
// Registry of the host memory that `poison` has marked (tegula/poison.h).
#include <cstdint>
#include <vector>

#include "ir/eval/released_memory.h"

namespace tegula::runtime {

/// Marks the elements, which hold bytes of 0xff, until their memory is freed.
void mark_released(const ir::ReleasedMemory& elements);
/// Removes the marks in [begin, end).
void forget_released(std::uintptr_t begin, std::uintptr_t end);
/// Returns all marked memory, ascending and disjoint.
std::vector<ir::ReleasedMemory> released_memory();

}  // namespace tegula::runtime
