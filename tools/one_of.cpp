#include "tools/one_of.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "support/nearest_name.h"

namespace tegula::tools {

std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(word, names);
  return nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest);
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string listed = fmt::format("{}", fmt::join(words, ","));
  const auto check = [words = std::move(words), listed](const std::string& word) {
    if (std::ranges::find(words, word) != words.end()) return std::string();
    const std::string nearest = suggestion(word, words);
    return nearest.empty() ? fmt::format("{} is not one of {}", word, listed)
                           : fmt::format("{} is not allowed{}", word, nearest);
  };
  return {check, "{" + listed + "}"};
}

std::string unknown_subcommand(const CLI::App& program) {
  const CLI::App* last = &program;
  while (!last->get_subcommands().empty()) last = last->get_subcommands().back();
  std::vector<std::string> names;
  for (const CLI::App* sub : last->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::vector<std::string> words = last->remaining();
  const auto word =
      std::ranges::find_if(words, [](const std::string& w) { return !w.starts_with('-'); });
  if (names.empty() || word == words.end()) return {};
  return fmt::format("{} has no subcommand {}{}", last->get_name(), *word,
                     suggestion(*word, names));
}

}  // namespace tegula::tools
