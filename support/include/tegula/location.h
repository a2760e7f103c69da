#pragma once
#include <cstdint>
#include <source_location>
#include <string_view>

namespace tegula {

/// Returns a copy of `text` that lives as long as the process; equal texts give the same pointer.
const char* intern(std::string_view text);

/// A place in the user's source. `file` is interned or a string literal; line 0 means "unknown".
struct Loc {
  const char* file = "";
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  constexpr Loc() = default;
  constexpr Loc(const char* f, std::uint32_t l, std::uint32_t c = 0)
      : file(f), line(l), column(c) {}
  constexpr Loc(std::source_location s)  // NOLINT(google-explicit-constructor)
      : file(s.file_name()), line(s.line()), column(s.column()) {}

  constexpr bool known() const { return line != 0; }
  friend bool operator==(const Loc& a, const Loc& b) {
    return a.line == b.line && a.column == b.column && std::string_view(a.file) == b.file;
  }
};

}  // namespace tegula
