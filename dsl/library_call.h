#pragma once
// Refusals of kernels that the library launches are said of the line that calls it.
#include <cstddef>
#include <string>

#include "tegula/location.h"

namespace tegula::dsl {

/// Throws that arguments `i` and `j` of a kernel share memory that it writes as argument `written`:
/// said of the line that calls the library, else of that which made the kernel.
[[noreturn]] void fail_overlap(const Loc& made_at, const std::string& kernel, std::size_t i,
                               std::size_t j, std::size_t written);

}  // namespace tegula::dsl
