#pragma once
// Counts remarks in what explain() prints.
#include <string>
#include <string_view>

namespace tegula::test {

/// Returns how many remarks contain the text; a line that ends in "(3 times)" is three of them.
inline int remark_count(std::string_view said, std::string_view text) {
  int count = 0;
  for (std::size_t at = 0; (at = said.find(text, at)) != said.npos; ++at) {
    const std::string line(said.substr(at, said.find('\n', at) - at));
    const std::size_t times = line.ends_with(" times)") ? line.rfind('(') : line.npos;
    count += times == line.npos ? 1 : std::stoi(line.substr(times + 1));
  }
  return count;
}

}  // namespace tegula::test
