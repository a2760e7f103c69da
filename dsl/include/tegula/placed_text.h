#pragma once
#include <concepts>
#include <source_location>
#include <string_view>

#include "tegula/location.h"

namespace tegula::detail {

/// A text that knows where it was written: the first argument of functions whose further ones are
/// of any number.
struct PlacedText {
  template <std::convertible_to<std::string_view> T>
  PlacedText(const T& t, std::source_location at = std::source_location::current())
      : text(t), loc(at) {}
  std::string_view text;
  Loc loc;
};

}  // namespace tegula::detail
