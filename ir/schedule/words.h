#pragma once
// The keywords for the enums of a Schedule, in the order of the enum values.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ir/schedule/schedule.h"

namespace tegula::ir {

inline constexpr std::array<std::string_view, 6> kChannelKinds{"tma",    "cp_async", "smem",
                                                               "reduce", "store",    "register"};
inline constexpr std::array<std::string_view, 3> kEngines{"wgmma", "mma", "fma"};
inline constexpr std::array<std::string_view, 4> kTileOrders{"each", "serpentine", "balanced",
                                                             "counter"};

template <std::size_t N, class Enum>
constexpr std::string_view word_of(const std::array<std::string_view, N>& words, Enum value) {
  return words[static_cast<std::size_t>(value)];
}

/// Returns the enum value of a word, or nothing if the word is not in the list.
template <class Enum, std::size_t N>
constexpr std::optional<Enum> value_of_word(const std::array<std::string_view, N>& words,
                                            std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace tegula::ir
