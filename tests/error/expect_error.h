#pragma once
// Pins the text of diagnostics word for word: tests/error/<file>.txt holds one section per case.
// Lines are counted from the line of the case, so that editing the file above changes nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <source_location>
#include <sstream>
#include <string>

#include "tegula/error.h"
#include "tests/comparable.h"

namespace tegula::test {

class Pinned {
 public:
  explicit Pinned(const std::string& file)
      : path_(std::string(TEGULA_SOURCE_DIR) + "/tests/error/" + file) {
    std::ifstream in(path_);
    std::string line, name;
    while (std::getline(in, line)) {
      if (line.starts_with("== "))
        name = line.substr(3);
      else if (!name.empty())
        expected_[name] += line + "\n";
    }
  }
  ~Pinned() {
    if (!blessing()) return;
    std::ofstream out(path_);
    for (const auto& [name, text] : seen_) out << "== " << name << "\n" << text;
  }

  void check(const std::string& name, const std::string& text) {
    seen_[name] = text;
    if (blessing()) return;
    const auto at = expected_.find(name);
    if (at == expected_.end())
      ADD_FAILURE() << name << " is not pinned in " << path_ << "; TEGULA_BLESS=1 writes:\n"
                    << text;
    else
      EXPECT_EQ(comparable(text), comparable(at->second)) << "TEGULA_BLESS=1 rewrites " << path_;
  }
  const std::map<std::string, std::string>& expected() const {
    return blessing() ? seen_ : expected_;
  }

 private:
  static bool blessing() {
    const char* b = std::getenv("TEGULA_BLESS");
    return b && *b;
  }
  std::string path_;
  std::map<std::string, std::string> expected_, seen_;
};

/// "/any/where/x_test.cpp:57:9" -> "x:+2:9" for base line 55; what is above the case is
/// "x:above". Lines of the library's own sources are "x.cpp:library".
inline std::string with_relative_lines(const std::string& text, unsigned base) {
  static const std::regex place(R"((?:[^\s:]*/)?(\w+)_test\.cpp:(\d+)((?::\d+)?))");
  std::string out;
  auto from = text.cbegin();
  for (std::sregex_iterator m(text.begin(), text.end(), place), end; m != end; ++m) {
    const unsigned long line = std::stoul((*m)[2]);
    out.append(from, m->prefix().second);
    out += (*m)[1].str() + ":";
    out += line < base ? "above" : "+" + std::to_string(line - base) + (*m)[3].str();
    from = m->suffix().first;
  }
  out.append(from, text.cend());
  static const std::regex of_library(R"([^\s:]*/(\w+\.(?:cpp|h)):\d+)");
  return std::regex_replace(out, of_library, "$1:library") + "\n";
}

/// The text of the CompileError that `f` throws.
template <class F>
std::string error_of(const F& f, std::source_location base = std::source_location::current()) {
  try {
    f();
  } catch (const CompileError& e) {
    // The source line, which the whole text has, would have to be pinned with each edit of a test.
    std::string text;
    for (const Diagnostic& d : e.diagnostics()) text += (text.empty() ? "" : "\n") + d.str();
    return with_relative_lines(text, base.line());
  } catch (const std::exception& e) {
    return std::string("not a CompileError: ") + e.what() + "\n";
  }
  return "no error\n";
}

}  // namespace tegula::test
