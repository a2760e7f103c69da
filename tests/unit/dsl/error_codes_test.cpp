// docs/language/error-codes.md is what dsl/errors.def says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/env.h"
#include "support/text.h"

namespace tegula {
namespace {

struct Row {
  std::string code, name, message, hint;
};

std::vector<Row> rows() {
  std::vector<Row> list{
#define DSL_ERROR(code, name, message, hint) {#code, #name, message, hint},
#include "dsl/errors.def"
#undef DSL_ERROR
  };
  std::ranges::stable_sort(list, {}, &Row::code);
  return list;
}

/// Titles of the groups, "T01" and so on, as the comments of errors.def have them.
std::map<std::string, std::string> titles() {
  std::istringstream text(read_file(TEGULA_SOURCE_DIR "/dsl/errors.def"));
  std::map<std::string, std::string> found;
  const std::string mark = "// ---- ";
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with(mark)) continue;
    const std::size_t colon = line.find(": "), end = line.find(" ---", colon);
    found[line.substr(mark.size(), colon - mark.size())] =
        line.substr(colon + 2, end - (colon + 2));
  }
  return found;
}

/// Placeholders become dots.
std::string shown(std::string text) {
  for (std::size_t at; (at = text.find("{}")) != std::string::npos;) text.replace(at, 2, "..");
  return text;
}

/// Words, at most 118 columns of them a line; lines after the first are indented.
std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  std::size_t column = 0;
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > 118) {
      out += "\n  ";
      column = 2;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

std::string page() {
  std::string out =
      "# Error codes\n\n"
      "Generated from `dsl/errors.def`; do not edit. Codes are stable: a code keeps its meaning, "
      "and a\n"
      "code that is no longer used is not given to another mistake. `..` stands for what the "
      "message\n"
      "names at that place. `CompileError::diagnostic()` holds code, message, place, notes and "
      "hint;\n"
      "[Debugging](debugging.md) shows how to catch it.\n";
  const std::map<std::string, std::string> of_group = titles();
  std::string group;
  for (const Row& row : rows()) {
    if (row.code.substr(0, 3) != group) {
      group = row.code.substr(0, 3);
      const auto title = of_group.find(group);
      EXPECT_NE(title, of_group.end()) << group << " has no heading in dsl/errors.def";
      out += "\n## " + group + ": " + (title == of_group.end() ? "" : title->second) + "\n\n";
    }
    out += wrapped("- **" + row.code + "** " + row.name + ": `" + shown(row.message) + "`. Fix: `" +
                   shown(row.hint) + "`.");
  }
  return out;
}

TEST(ErrorCodes, PageIsCurrent) {
  const std::filesystem::path path = TEGULA_SOURCE_DIR "/docs/language/error-codes.md";
  if (env().bless) write_file(path, page());
  EXPECT_EQ(read_file(path), page()) << "TEGULA_BLESS=1 rewrites it";
}

TEST(ErrorCodes, EveryCodeIsOne) {
  const std::vector<Row> list = rows();
  const auto twice = std::ranges::adjacent_find(list, {}, &Row::code);
  EXPECT_EQ(twice, list.end()) << (twice == list.end() ? "" : twice->code);
  for (const Row& row : list)
    EXPECT_FALSE(row.message.empty() || row.hint.empty()) << row.code << " says what, and a fix";
}

}  // namespace
}  // namespace tegula
