#pragma once
// Rows of the store as lines of JSON.
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "autotune/store/records.h"

namespace tegula::autotune {

/// {"table":"winner","device":..}: the fields in the order of their names, no line break.
std::string line_of(const Winner& row);
std::string line_of(const Timing& row);

/// The row of a line; none if the line is not one of that table or any field is missing, too long
/// or of another type.
template <class R>
std::optional<R> row_of(std::string_view line);

/// Between two rows of one key. Total, so that merging has one result whatever its order.
bool is_preferred(const Winner& other, const Winner& own);
bool is_preferred(const Timing& other, const Timing& own);

/// Calls `f` for the lines that are not empty.
template <class F>
void for_each_line(std::string_view text, const F& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace tegula::autotune
