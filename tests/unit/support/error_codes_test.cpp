// Codes of errors, findings and warnings: each is one, documented in docs/language/error-codes.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/env.h"
#include "support/markdown.h"
#include "support/text.h"

namespace tegula::error_codes_test {
namespace {

constexpr const char* kTables[] = {"support/errors.def", "ir/eval/findings.def",
                                   "codegen/sim/detectors.def", "runtime/warnings.def"};
const std::filesystem::path kSource = TEGULA_SOURCE_DIR;

struct CodeRow {
  std::string code, name, message, hint;
};
using CodeRows = std::vector<CodeRow>;

CodeRows errors() {
  return {
#define TEGULA_ERROR(code, name, message, hint) {#code, #name, message, hint},
#include "support/errors.def"
#undef TEGULA_ERROR
  };
}

CodeRows warnings() {
  return {
#define TEGULA_WARNING(code, name, message, hint) {#code, #name, message, hint},
#include "runtime/warnings.def"
#undef TEGULA_WARNING
  };
}

CodeRows findings() {
  return {
#define FINDING(kind, text, code, doc) {#code, text, doc, ""},
#include "ir/eval/findings.def"
#undef FINDING
  };
}

/// Findings that the interpreter shares, by the simulator's name.
CodeRow shared(const std::string& kind, const char* name) {
  static const std::map<std::string, CodeRow> of_kind{
#define FINDING(kind, text, code, doc) {#kind, {#code, text, doc, ""}},
#include "ir/eval/findings.def"
#undef FINDING
  };
  CodeRow row = of_kind.at(kind);
  row.name = name;
  return row;
}

CodeRows detectors() {
  return {
#define DETECTOR(kind, text, code, doc) {#code, text, doc, ""},
#define SHARED_DETECTOR(Name, text, kind) shared(#kind, text),
#include "codegen/sim/detectors.def"
#undef DETECTOR
#undef SHARED_DETECTOR
  };
}

/// By code. What both devices find is one row, with both names.
CodeRows rows() {
  CodeRows list = errors();
  std::ranges::copy(warnings(), std::back_inserter(list));
  std::map<std::string, CodeRow> found;
  for (const CodeRow& row : findings()) found[row.code] = row;
  for (const CodeRow& row : detectors()) {
    const auto [at, is_new] = found.emplace(row.code, row);
    if (!is_new && at->second.name != row.name) at->second.name += " / " + row.name;
  }
  for (const auto& [code, row] : found) list.push_back(row);
  std::ranges::stable_sort(list, {}, &CodeRow::code);
  return list;
}

/// Titles of the groups, "T01" and so on, as the comments of the tables have them.
std::map<std::string, std::string> titles() {
  std::map<std::string, std::string> found;
  for (const char* table : kTables) {
    std::istringstream text(read_file(kSource / table));
    const std::string mark = "// ---- T";
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with(mark)) continue;
      const std::size_t begin = mark.size() - 1, colon = line.find(": "),
                        end = line.find(" ---", colon);
      const bool is_new =
          found
              .emplace(line.substr(begin, colon - begin), line.substr(colon + 2, end - (colon + 2)))
              .second;
      EXPECT_TRUE(is_new) << table << ": " << line;
    }
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
      "# Error codes\n\n" +
      markdown_paragraph(
          "Generated from `support/errors.def`, `ir/eval/findings.def`, "
          "`codegen/sim/detectors.def` and `runtime/warnings.def`; do not edit. Codes are "
          "stable: a code keeps its meaning, and one that is no longer used is not given to "
          "another mistake. `..` stands for what the message names at that place. "
          "`CompileError::diagnostic()` holds code, message, place, notes and hint; "
          "[Debugging](debugging.md) shows how to catch it.");
  const std::map<std::string, std::string> of_group = titles();
  std::string group;
  for (const CodeRow& row : rows()) {
    if (row.code.substr(0, 3) != group) {
      group = row.code.substr(0, 3);
      const auto title = of_group.find(group);
      EXPECT_NE(title, of_group.end()) << group << " has no heading in a table";
      out += "\n## " + group + ": " + (title == of_group.end() ? "" : title->second) + "\n\n";
    }
    const std::string said = "- **" + row.code + "** " + row.name + ": ";
    out += wrapped(row.hint.empty()
                       ? said + row.message + "."
                       : said + "`" + shown(row.message) + "`. Fix: `" + shown(row.hint) + "`.");
  }
  return out;
}

/// Files of the library, as their paths from the root.
std::vector<std::string> sources() {
  std::vector<std::string> found;
  for (const char* layer : {"support", "ir", "codegen", "runtime", "dsl", "autotune", "kernels"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / layer))
      if (const auto kind = entry.path().extension(); kind == ".cpp" || kind == ".h")
        found.push_back(std::filesystem::relative(entry.path(), kSource).string());
  std::ranges::sort(found);
  return found;
}

TEST(ErrorCodes, PageIsCurrent) {
  const std::filesystem::path path = kSource / "docs/language/error-codes.md";
  if (env().bless) write_file(path, page());
  EXPECT_EQ(read_file(path), page()) << "TEGULA_BLESS=1 rewrites it";
}

/// Two devices may give what both find one code, each once.
TEST(ErrorCodes, EveryCodeIsOne) {
  CodeRows once = errors();
  std::ranges::copy(warnings(), std::back_inserter(once));
  CodeRows with_findings = once, with_detectors = once;
  std::ranges::copy(findings(), std::back_inserter(with_findings));
  std::ranges::copy(detectors(), std::back_inserter(with_detectors));
  for (CodeRows list : {with_findings, with_detectors}) {
    std::ranges::sort(list, {}, &CodeRow::code);
    const auto twice = std::ranges::adjacent_find(list, {}, &CodeRow::code);
    EXPECT_EQ(twice, list.end()) << (twice == list.end() ? "" : twice->code);
    for (const CodeRow& row : list) EXPECT_FALSE(row.message.empty()) << row.code << " says what";
  }
  for (const CodeRow& row : once) EXPECT_FALSE(row.hint.empty()) << row.code << " says a fix";
}

/// One code has one meaning, whichever device finds it.
TEST(ErrorCodes, EveryCodeMeansOneThing) {
  std::map<std::string, std::string> meanings;
  for (const CodeRows& list : {findings(), detectors()})
    for (const CodeRow& row : list)
      EXPECT_EQ(meanings.emplace(row.code, row.message).first->second, row.message) << row.code;
}

/// A code that is written down anywhere in the library is one of a table.
TEST(ErrorCodes, EveryWrittenCodeIsInATable) {
  std::set<std::string> known;
  for (const CodeRow& row : rows()) known.insert(row.code);
  const std::regex code("\"(T[0-9]{4})");
  for (const std::string& file : sources()) {
    const std::string text = read_file(kSource / file);
    for (std::sregex_iterator m(text.begin(), text.end(), code), end; m != end; ++m)
      EXPECT_TRUE(known.contains((*m)[1])) << file << " has " << (*m)[1];
  }
}

/// Nothing is refused without a code: diagnostics are made from the tables.
TEST(ErrorCodes, EveryErrorHasOne) {
  const std::regex uncoded(R"x(Diagnostic(\(|\{)""|Diagnostic \w*[a-z];)x");
  for (const std::string& file : sources()) {
    const std::string text = read_file(kSource / file);
    EXPECT_FALSE(std::regex_search(text, uncoded))
        << file << " makes a diagnostic without a code: support/errors.def has the codes";
  }
}

}  // namespace
}  // namespace tegula::error_codes_test
