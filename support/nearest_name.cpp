#include "support/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tegula {

std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t kLettersPerEdit = 3;
  const auto edits = [&](const std::string& name) { return edits_between(word, name); };
  const auto nearest = std::ranges::min_element(names, {}, edits);
  if (nearest != names.end() && edits(*nearest) * kLettersPerEdit <= word.size()) return *nearest;
  const auto longer = std::ranges::find_if(names, [&](const std::string& name) {
    return word.size() >= kLettersPerEdit && name.find(word) != std::string::npos;
  });
  return longer == names.end() ? "" : *longer;
}

}  // namespace tegula
