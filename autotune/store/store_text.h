#pragma once
// Conversion of store rows to and from lines of JSON.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "autotune/store/records.h"

namespace tegula::autotune {

/// Returns {"table":"winner","device":..}: fields sorted by name, without a line break.
std::string line_of(const Winner& row);

/// Returns the row of a line, or nullopt if the line belongs to another table or a field is
/// missing, too long or of the wrong type.
template <class R>
std::optional<R> row_of(std::string_view line);

/// Calls `f` for each line that is not empty.
template <class F>
void for_each_line(std::string_view text, const F& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace tegula::autotune
