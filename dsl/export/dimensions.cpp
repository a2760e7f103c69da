#include "dsl/export/dimensions.h"

#include <charconv>

namespace tegula::c {
namespace {

std::optional<std::int64_t> parse_number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::int64_t> extent_of(std::string_view text, const Extents& extents) {
  if (const auto constant = parse_number(text)) return constant;
  const std::size_t at = text.find_first_of("*+");
  const auto named = extents.find(text.substr(0, at));
  if (named == extents.end()) return std::nullopt;
  if (at == text.npos) return named->second;
  const auto by = parse_number(text.substr(at + 1));
  if (!by) return std::nullopt;
  return text[at] == '*' ? named->second * *by : named->second + *by;
}

}  // namespace tegula::c
