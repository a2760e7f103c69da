#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "runtime/assemble.h"
#include "support/text.h"

namespace tegula::runtime {
namespace {

/// Returns the number right before `unit` in a line, e.g. 168 for "Used 168 registers, ..." and "
/// registers".
std::optional<int> number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t first = at;
  while (first > 0 && line[first - 1] >= '0' && line[first - 1] <= '9') --first;
  int value = 0;
  const auto [end, fault] = std::from_chars(line.data() + first, line.data() + at, value);
  if (fault != std::errc() || end == line.data() + first) return std::nullopt;
  return value;
}

struct Statistic {
  std::string_view unit;
  int AssembleReport::* field;
  bool adds;
};

constexpr Statistic kStatistics[] = {
    {" registers", &AssembleReport::registers, false},
    {" barriers", &AssembleReport::barriers, false},
    {" bytes stack frame", &AssembleReport::stack, false},
    {" bytes spill stores", &AssembleReport::spill_stores, true},
    {" bytes spill loads", &AssembleReport::spill_loads, true},
    {" bytes smem", &AssembleReport::smem, false},
};

/// Returns "C7510" for a line with "(C7510)", or "".
std::string code_of(std::string_view line) {
  const std::size_t open = line.find("(C");
  if (open == std::string_view::npos) return {};
  const std::size_t close = line.find(')', open);
  const std::string_view code = line.substr(open + 1, close - open - 1);
  const bool all_digits = code.size() == 5 && std::all_of(code.begin() + 1, code.end(), [](char c) {
                            return c >= '0' && c <= '9';
                          });
  return all_digits ? std::string(code) : std::string();
}

bool is_complaint(std::string_view line) {
  return line.find("warning") != std::string_view::npos ||
         line.find("Potential Performance Loss") != std::string_view::npos ||
         line.find("error") != std::string_view::npos ||
         line.find("fatal") != std::string_view::npos;
}

void read_line(AssembleReport& report, std::string_view line) {
  const std::string code = code_of(line);
  if (!code.empty()) {
    report.codes.push_back(code);
    report.serialised |= code >= "C7510" && code <= "C7519";
    report.setmaxnreg_ignored |= code >= "C7504" && code <= "C7508";
  }
  if (!code.empty() || is_complaint(line)) {
    report.warnings.emplace_back(trim(line));
    return;  // its numbers repeat those of the statistics
  }
  for (const Statistic& s : kStatistics) {
    const std::optional<int> value = number_before(line, s.unit);
    if (!value) continue;
    int& field = report.*s.field;
    field = s.adds ? field + *value : std::max(field, *value);
  }
  constexpr std::string_view kTime = "Compile time = ";
  if (const std::size_t at = line.find(kTime); at != std::string_view::npos)
    report.tool_ms += std::strtod(std::string(line.substr(at + kTime.size())).c_str(), nullptr);
}

}  // namespace

AssembleReport parse_assembler_log(std::string_view log) {
  AssembleReport report;
  for (std::string_view line : split(log, '\n')) read_line(report, line);
  return report;
}

bool AssembleReport::is_clean() const { return defects().empty(); }

std::string AssembleReport::defects() const {
  std::vector<std::string> faults;
  if (spilled_bytes() > 0) faults.push_back(fmt::format("spills {} bytes", spilled_bytes()));
  if (stack > 0) faults.push_back(fmt::format("uses {} bytes of stack", stack));
  for (const std::string& code : codes)
    if (code.substr(0, 3) == "C75") faults.push_back(code);
  return fmt::format("{}", fmt::join(faults, "; "));
}

}  // namespace tegula::runtime
