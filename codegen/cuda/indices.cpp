// Recognizes start + step * ((r / each) % period).
#include "codegen/cuda/indices.h"

#include <fmt/format.h>

namespace tegula::codegen::cuda {
namespace {

struct Pattern {
  std::int64_t start = 0, step = 0, each = 1, period = 0;  ///< period 0: not periodic

  std::int64_t at(std::int64_t r) const {
    std::int64_t i = r / each;
    if (period != 0) i %= period;
    return start + step * i;
  }
};

bool fits(const Pattern& p, std::span<const std::int64_t> list) {
  for (std::size_t r = 0; r < list.size(); ++r)
    if (p.at(static_cast<std::int64_t>(r)) != list[r]) return false;
  return true;
}

std::string spell(const Pattern& p) {
  std::string s = "r";
  if (p.step == 0) return std::to_string(p.start);
  if (p.each != 1) s = fmt::format("r / {}", p.each);
  if (p.period != 0)
    s = p.each != 1 ? fmt::format("{} % {}", s, p.period) : fmt::format("r % {}", p.period);
  if (p.step == -1) return fmt::format("{} - {}", p.start, s == "r" ? s : "(" + s + ")");
  if (p.step != 1) s = fmt::format("{} * {}", p.step, s == "r" ? s : "(" + s + ")");
  if (p.start != 0) s = fmt::format("{} + {}", s, p.start);
  return s;
}

}  // namespace

std::string index_pattern(std::span<const std::int64_t> list) {
  const auto n = static_cast<std::int64_t>(list.size());
  if (n == 0) return "";
  std::int64_t each = 1;  // repetitions of the first register
  while (each < n && list[static_cast<std::size_t>(each)] == list[0]) ++each;
  Pattern p{list[0], 0, each, 0};
  if (each == n) return spell({list[0], 0, 1, 0});
  p.step = list[static_cast<std::size_t>(each)] - list[0];
  if (fits(p, list)) return spell(p);
  for (p.period = 2; p.period * each < n; ++p.period)
    if (fits(p, list)) return spell(p);
  return "";
}

std::string at_index(std::string_view pattern, std::string_view index) {
  if (index == "r") return std::string(pattern);
  const bool is_simple = index.find(' ') == std::string_view::npos;
  std::string out;
  for (char c : pattern) {
    if (c != 'r')
      out += c;
    else
      out += is_simple ? std::string(index) : fmt::format("({})", index);
  }
  return out;
}

}  // namespace tegula::codegen::cuda
