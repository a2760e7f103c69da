#pragma once
// Register lists as formulas, so that a choice of registers is written `x[(r / 2) % 2]` instead of
// a list of numbers.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tegula::codegen::cuda {

/// Returns an expression in `r` whose values at r = 0, 1, ... are the list, e.g. "2 * r + 1"; empty
/// if none was found.
std::string index_pattern(std::span<const std::int64_t> list);

/// Returns `pattern` with r replaced by `index`, in parentheses if needed.
std::string at_index(std::string_view pattern, std::string_view index);

}  // namespace tegula::codegen::cuda
