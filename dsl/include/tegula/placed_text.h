#pragma once
#include <concepts>
#include <source_location>
#include <string_view>

#include "tegula/location.h"

namespace tegula::detail {

/// A text with its source location: the first argument of functions that take any number of further
/// arguments.
struct PlacedText {
  template <std::convertible_to<std::string_view> T>
  PlacedText(const T& t, std::source_location at = std::source_location::current())
      : text(t), loc(at) {}
  std::string_view text;
  Loc loc;
};

}  // namespace tegula::detail
