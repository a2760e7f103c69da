#pragma once
// Suggestions for misspelt names.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

/// Returns how many letters must be inserted, removed or replaced to turn one text into the other.
std::size_t edits_between(std::string_view a, std::string_view b);

/// Returns the name that `word` probably means: the nearest one, if at most a third of the letters
/// differ, or else the first name that contains `word`; "" if there is none.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace tegula
