#pragma once
// Extents by the names of dimensions.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tegula::c {

using Extents = std::map<std::string, std::int64_t, std::less<>>;

/// The extent that a dimension's text stands for: a name, a number, or a name with `*` or `+` and a
/// number. Empty where none of the names is known.
std::optional<std::int64_t> extent_of(std::string_view text, const Extents& extents);

}  // namespace tegula::c
