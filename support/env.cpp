// Reads and documents the rows of env.def.
#include "support/env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "support/errors.h"
#include "support/generation.h"
#include "support/markdown.h"
#include "support/nearest_name.h"
#include "support/text.h"

namespace tegula {
namespace {

struct EnvRow {
  const char* kind;
  const char* name;
  const char* values;
  const char* fallback;
  const char* doc;
};

constexpr EnvRow kVariables[] = {
#define TEGULA_ENV(Kind, field, fallback, name, values, doc) {#Kind, name, values, #fallback, doc},
#include "support/env.def"
#undef TEGULA_ENV
};

[[noreturn]] void refuse(const char* name, std::string_view value, std::string_view allowed) {
  throw DeviceError(diagnostic(ErrorId::bad_environment, {}, {}, name, value,
                               "the value is not allowed", fmt::format("use {}", allowed)));
}

std::string parse_Text(const char*, const std::string& value, const char*) { return value; }

std::filesystem::path parse_Path(const char*, const std::string& value, const char*) {
  return value;
}

bool parse_Flag(const char* name, const std::string& value, const char*) {
  if (value != "0" && value != "1") refuse(name, value, "0 or 1");
  return value == "1";
}

std::int64_t parse_Number(const char* name, const std::string& value, const char*) {
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < 1) refuse(name, value, "a positive integer");
  return number;
}

std::vector<std::string> parse_List(const char*, const std::string& value, const char*) {
  std::vector<std::string> items;
  for (std::string_view item : split(value, ',')) {
    if (!trim(item).empty()) items.emplace_back(trim(item));
  }
  return items;
}

std::string parse_Choice(const char* name, const std::string& value, const char* values) {
  const std::vector<std::string_view> allowed = split(values, '|');
  if (std::ranges::find(allowed, value) == allowed.end()) {
    refuse(name, value, fmt::format("one of {}", fmt::join(allowed, ", ")));
  }
  return value;
}

std::optional<std::string> from_process(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::atomic<const Env*>& override_slot() {
  static std::atomic<const Env*> slot = nullptr;
  return slot;
}

}  // namespace

Env Env::read(const Lookup& lookup) {
  Env result;
#define TEGULA_ENV(Kind, field, fallback, name, values, doc)     \
  if (const auto value = lookup(name); value && !value->empty()) \
    result.field = parse_##Kind(name, *value, values);
#include "support/env.def"
#undef TEGULA_ENV
  return result;
}

const Env& env() {
  if (const Env* replaced = override_slot().load(std::memory_order_acquire)) return *replaced;
  static const Env process = [] {
    refuse_misspelt(environment_entries());
    return Env::read(from_process);
  }();
  return process;
}

EnvOverride::EnvOverride(Env replacement)
    : mine_(std::move(replacement)), before_(override_slot().exchange(&mine_)) {
  begin_generation();
}

EnvOverride::~EnvOverride() {
  override_slot().store(before_);
  begin_generation();
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& entries) {
  std::vector<std::string> unknown;
  for (const std::string& entry : entries) {
    const std::string name = entry.substr(0, entry.find('='));
    const bool ours = name.starts_with("TEGULA_");
    const bool known =
        std::ranges::any_of(kVariables, [&](const EnvRow& row) { return name == row.name; });
    if (ours && !known) unknown.push_back(name);
  }
  std::ranges::sort(unknown);
  return unknown;
}

void refuse_misspelt(const std::vector<std::string>& entries) {
  for (const std::string& name : unknown_variables(entries)) {
    const EnvRow* nearest = std::ranges::min_element(
        kVariables, {}, [&](const EnvRow& row) { return edits_between(name, row.name); });
    constexpr std::size_t kShort = std::string_view("TEGULA_TUNE").size();
    if (edits_between(name, nearest->name) > (name.size() > kShort ? 2 : 1)) continue;
    const auto entry = std::ranges::find_if(
        entries, [&](const std::string& e) { return e.starts_with(name + "="); });
    throw DeviceError(diagnostic(ErrorId::bad_environment, {}, {}, name,
                                 entry->substr(name.size() + 1), "unknown variable",
                                 fmt::format("did you mean {}?", nearest->name)));
  }
}

std::vector<std::string> environment_entries() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry && *entry; ++entry) entries.emplace_back(*entry);
  return entries;
}

std::string env_markdown() {
  std::string text =
      "# Environment variables\n\n" +
      markdown_paragraph(
          "Generated from `support/env.def`; do not edit. Every variable that the library and its "
          "program read is here. An unset or empty variable means the default; a value that is not "
          "allowed is a `DeviceError` (T2006), and so is a name that differs in a letter or two "
          "from one of these; `tegula doctor` names other `TEGULA_*` variables that are not in "
          "this "
          "list.") +
      "\n";
  for (const EnvRow& row : kVariables) {
    std::string values = row.values;
    if (std::string_view(row.kind) == "Choice") {
      values = fmt::format("{}", fmt::join(split(row.values, '|'), ", "));
    }
    const std::string_view fallback = row.fallback;
    const bool shows_default = fallback != "\"\"" && fallback != "{}";
    std::string shown(fallback);
    std::erase_if(shown, [](char c) { return c == '"' || c == '\''; });
    if (shown == "false") shown = "0";
    text += markdown_item(fmt::format("`{}` ({}): {}{}", row.name, values, row.doc,
                                      shows_default ? fmt::format(" Default: {}.", shown) : ""));
  }
  return text;
}

}  // namespace tegula
