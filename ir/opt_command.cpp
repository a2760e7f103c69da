#include "ir/opt_command.h"

#include <fmt/format.h>

namespace tegula::ir {
namespace {

constexpr std::string_view kProgram = "tegula opt", kPasses = " --passes=", kPlan = " --plan=",
                           kChanges = "TEGULA_PLAN=", kChecks = " --checks";

/// Returns the text after the flag, in quotes or up to the next space.
std::string value_after(std::string_view line, std::string_view flag) {
  const std::size_t found = line.find(flag);
  if (found == std::string_view::npos) return {};
  line.remove_prefix(found + flag.size());
  const bool is_quoted = line.starts_with('"');
  if (is_quoted) line.remove_prefix(1);
  return std::string(line.substr(0, line.find(is_quoted ? '"' : ' ')));
}

}  // namespace

std::string opt_command(const PassContext& context) {
  // An existing plan is executed unchanged.
  const std::string_view checks = context.keep_checks ? kChecks : "";
  if (context.plan)
    return fmt::format("{}{}{}\"{}\"", kProgram, checks, kPlan, context.plan->str());
  if (context.planned.is_empty()) return fmt::format("{}{}", kProgram, checks);
  return fmt::format("{}\"{}\" {}{}", kChanges, context.planned.str(), kProgram, checks);
}

std::string opt_comment(std::string_view command, std::string_view passes) {
  return fmt::format("; {}{}{} THIS_FILE\n", command, kPasses, passes);
}

OptHeader opt_header(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (!line.starts_with(';') || line.find(kProgram) == std::string_view::npos) return {};
  return {value_after(line, kPasses), value_after(line, kPlan), value_after(line, kChanges),
          line.find(kChecks) != std::string_view::npos};
}

}  // namespace tegula::ir
