#pragma once
// Recorded texts are from a build by GCC.
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace tegula::test {

/// Returns the text as it is compared with a recorded one. Clang evaluates operands in another
/// order than GCC, and so ops are added in another order, and it places calls at other columns.
/// There, returns the lines in alphabetical order, without numbers of values and places of calls.
inline std::string comparable(const std::string& text) {
#ifdef __clang__
  static const std::regex number("%\\d+"), place(":\\+\\d+(:\\d+)?");
  std::istringstream in(std::regex_replace(std::regex_replace(text, number, "%"), place, ""));
  std::multiset<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  return sorted;
#else
  return text;
#endif
}

}  // namespace tegula::test
