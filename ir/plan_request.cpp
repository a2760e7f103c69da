#include "ir/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <type_traits>

#include "ir/schedule/text.h"
#include "ir/schedule/to_plan.h"
#include "support/errors.h"
#include "support/text.h"

namespace tegula::ir {
namespace {

constexpr std::string_view kSchedule = "schedule ";

constexpr std::string_view kFieldNames =
#define PLAN_FIELD(type, name, fallback, doc) #name " "
#include "ir/plan.def"
#undef PLAN_FIELD
    ;

// PlanPatch has a member for each row.
#define PLAN_FIELD(type, name, fallback, doc) \
  static_assert(std::is_same_v<decltype(PlanPatch::name), std::optional<type>>);
#include "ir/plan.def"
#undef PLAN_FIELD

[[noreturn]] void refuse(std::string_view change) {
  fail(ErrorId::bad_plan, {}, {}, change, kFieldNames);
}

void set_field(PlanPatch& patch, std::string_view name, int value, std::string_view change) {
#define PLAN_FIELD(type, field, fallback, doc) \
  if (name == #field) {                        \
    patch.field = static_cast<type>(value);    \
    return;                                    \
  }
#include "ir/plan.def"
#undef PLAN_FIELD
  refuse(change);
}

int value_of(std::string_view digits, std::string_view change) {
  if (digits == "true") return 1;
  if (digits == "false") return 0;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc() || end != digits.end()) refuse(change);
  return value;
}

/// Removes the next "name=value" from the text and returns it, skipping the keywords and braces of
/// a printed plan; "" at its end.
std::string_view next_change(std::string_view& text) {
  constexpr std::string_view kBetween = " ,}\n\t", kBegin = "plan {";
  const auto skip = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
  };
  for (skip(); text.starts_with(kBegin); skip()) text.remove_prefix(kBegin.size());
  const std::string_view change = text.substr(0, text.find_first_of(kBetween));
  text.remove_prefix(change.size());
  return change;
}

/// Returns the length of the Schedule's text: up to the brace that closes its first one.
std::size_t schedule_length(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return text.size();
}

}  // namespace

PlanPatch PlanRequest::fields() const {
  return schedule ? merged(plan_fields(*schedule), requested) : requested;
}

std::string PlanRequest::str() const {
  const std::string fields = ir::str(requested);
  if (!schedule) return fields;
  std::string text = print(*schedule);
  std::ranges::replace(text, '\n', ' ');
  return std::string(trim(text + " " + fields));
}

void PlanRequest::add(const PlanRequest& later) {
  requested = later.schedule ? later.requested : merged(requested, later.requested);
  if (later.schedule) schedule = later.schedule;
  if (later.at.known()) at = later.at;
}

PlanRequest parse_plan_request(std::string_view text, Loc loc) {
  PlanRequest request;
  request.at = loc;
  text = trim(text);
  if (text.starts_with(kSchedule)) {
    const std::size_t length = schedule_length(text);
    request.schedule =
        std::make_shared<const Schedule>(parse_schedule(text.substr(0, length), loc));
    text.remove_prefix(length);
  }
  request.requested = parse_plan_patch(text);
  return request;
}

PlanPatch parse_plan_patch(std::string_view text) {
  PlanPatch patch;
  for (auto change = next_change(text); !change.empty(); change = next_change(text)) {
    const std::size_t equals = change.find('=');
    if (equals == std::string_view::npos) refuse(change);
    set_field(patch, change.substr(0, equals), value_of(change.substr(equals + 1), change), change);
  }
  return patch;
}

std::string str(const PlanPatch& patch) {
  std::string out;
#define PLAN_FIELD(type, name, fallback, doc) \
  if (patch.name)                             \
    fmt::format_to(std::back_inserter(out), #name "={} ", static_cast<int>(*patch.name));
#include "ir/plan.def"
#undef PLAN_FIELD
  if (!out.empty()) out.pop_back();
  return out;
}

PlanPatch merged(PlanPatch patch, const PlanPatch& over) {
#define PLAN_FIELD(type, name, fallback, doc) \
  if (over.name) patch.name = over.name;
#include "ir/plan.def"
#undef PLAN_FIELD
  return patch;
}

}  // namespace tegula::ir
