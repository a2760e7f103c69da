#include "autotune/field.h"

namespace tegula::autotune::field_detail {

std::string quoted_value(std::string_view text) {
  if (!text.empty() && text.find_first_of(" \"\\=") == std::string_view::npos)
    return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::optional<std::string> FieldReader::take(std::string_view name) {
  if (!rest_.starts_with(name) || rest_.substr(name.size(), 1) != "=") return std::nullopt;
  rest_.remove_prefix(name.size() + 1);
  std::string value;
  if (rest_.starts_with('"')) {
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != '"'; ++at) {
      if (rest_[at] == '\\') ++at;
      if (at < rest_.size()) value += rest_[at];
    }
    if (at >= rest_.size()) return std::nullopt;
    rest_.remove_prefix(at + 1);
  } else {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    value = rest_.substr(0, end);
    if (value.empty()) return std::nullopt;
    rest_.remove_prefix(end);
  }
  if (rest_.empty()) return value;
  // A blank ends a field, and another field follows it.
  if (rest_.size() < 2 || rest_[0] != ' ' || rest_[1] == ' ') return std::nullopt;
  rest_.remove_prefix(1);
  return value;
}

}  // namespace tegula::autotune::field_detail
