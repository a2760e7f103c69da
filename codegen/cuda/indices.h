#pragma once
// Register lists as formulas, so that a choice of registers reads as `x[(r / 2) % 2]` instead of a
// list of numbers.
#include <cstdint>
#include <span>
#include <string>

namespace tegula::codegen::cuda {

/// An expression in `r` whose value at r = 0, 1, ... is the list, e.g. "2 * r + 1"; empty where
/// none was found.
std::string index_pattern(std::span<const std::int64_t> list);

/// `pattern` with `index` in place of r, in brackets where it is needed.
std::string at_index(std::string_view pattern, std::string_view index);

}  // namespace tegula::codegen::cuda
