#include "ir/schedule/reason.h"

#include <fmt/format.h>

#include <array>

namespace tegula::ir {
namespace {

constexpr std::array kRules{
#define RULE(id, doc) RuleRow{#id, doc},
#include "ir/schedule/rules.def"
#undef RULE
};

std::string line_of(Loc loc) { return fmt::format("{}:{}", loc.file, loc.line); }

}  // namespace

std::span<const RuleRow> all_rules() { return kRules; }

std::string Reason::str() const {
  const std::string head = at.known() ? line_of(at) + ": " : "";
  const bool has_other = other.known() && !(other == at);
  return fmt::format("{}{}: {}{}", head, kRules[static_cast<std::size_t>(rule)].id, text,
                     has_other ? fmt::format(" ({})", line_of(other)) : "");
}

}  // namespace tegula::ir
