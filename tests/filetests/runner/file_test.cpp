// Reads and writes file tests: directives and the expected lines below them.
#include "tests/filetests/runner/file_test.h"

#include <stdexcept>

#include "support/text.h"

namespace tegula::filetest {
namespace {

constexpr std::string_view kRun = "; run: ", kOutput = ";>";

/// "; > text" without what marks it as expected; an empty line has no blank after the mark.
std::string_view expected_line(std::string_view line) {
  line.remove_prefix(kOutput.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

void append_output(std::string& text, std::string_view output) {
  if (output.ends_with('\n')) output.remove_suffix(1);
  for (std::string_view line : split(output, '\n')) {
    text += kOutput;
    if (!line.empty()) text += ' ';
    text.append(line).append("\n");
  }
}

}  // namespace

std::vector<Directive> directives(std::string_view text) {
  std::vector<Directive> all;
  bool follows = false;  // the last line belongs to the last directive
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with(kRun)) {
      all.push_back({std::string(trim(line.substr(kRun.size()))), ""});
      follows = true;
    } else if (line.starts_with(kOutput)) {
      if (!follows) throw std::invalid_argument("no directive stands over: " + std::string(line));
      all.back().expected.append(expected_line(line)).append("\n");
    } else {
      follows = false;
    }
  }
  return all;
}

std::string with_outputs(std::string_view text, const std::vector<std::string>& outputs) {
  std::string out;
  std::size_t next = 0;
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with(kOutput)) continue;
    out.append(line).append("\n");
    if (line.starts_with(kRun)) append_output(out, outputs.at(next++));
  }
  return out;
}

}  // namespace tegula::filetest
