#pragma once
// Reasons why a Schedule is not legal, as data.
#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// The rules of ir/schedule/rules.def.
enum class Rule : std::uint8_t {
#define RULE(id, doc) id,
#include "ir/schedule/rules.def"
#undef RULE
};

struct RuleRow {
  std::string_view id, doc;
};
/// Returns all rules in the order of the enum.
std::span<const RuleRow> all_rules();

struct Reason {
  Rule rule;
  std::string text;
  std::vector<Label> labels = {};
  Loc at = {}, other = {};  ///< source locations of the first and the second label

  /// Formats the reason as "k.cpp:12: G1: text (k.cpp:14)".
  std::string str() const;
};

using Reasons = std::vector<Reason>;

}  // namespace tegula::ir

template <class Tag>
struct fmt::formatter<tegula::ir::Symbol<Tag>> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(tegula::ir::Symbol<Tag> symbol, Context& context) const {
    return fmt::formatter<std::string_view>::format(symbol.str(), context);
  }
};
