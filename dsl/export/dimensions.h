#pragma once
// Extents by dimension names.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tegula::c {

using Extents = std::map<std::string, std::int64_t, std::less<>>;

/// Returns the extent that a dimension's text denotes: a name, a number, or a name with `*` or `+`
/// and a number. Empty if the name is not known.
std::optional<std::int64_t> extent_of(std::string_view text, const Extents& extents);

}  // namespace tegula::c
