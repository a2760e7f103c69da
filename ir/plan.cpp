#include "ir/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "ir/schedule/to_plan.h"
#include "support/errors.h"

namespace tegula::ir {

namespace {

constexpr std::string_view kFieldNames =
#define PLAN_FIELD(type, name, fallback, doc) #name " "
#include "ir/plan.def"
#undef PLAN_FIELD
    ;

[[noreturn]] void refuse(std::string_view change) {
  fail(ErrorId::bad_plan, {}, {}, change, kFieldNames);
}

void set_field(Plan& plan, std::string_view name, int value, std::string_view change) {
#define PLAN_FIELD(type, field, fallback, doc) \
  if (name == #field) {                        \
    plan.field = static_cast<type>(value);     \
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

/// Takes the next "name=value" from the text, past the words and braces of a printed plan; empty at
/// its end.
std::string_view next_change(std::string_view& text) {
  constexpr std::string_view kBetween = " ,}", kBegin = "plan {";
  const auto skip = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
  };
  for (skip(); text.starts_with(kBegin); skip()) text.remove_prefix(kBegin.size());
  const std::string_view change = text.substr(0, text.find_first_of(kBetween));
  text.remove_prefix(change.size());
  return change;
}

void apply(Plan& plan, std::string_view change) {
  const std::size_t equals = change.find('=');
  if (equals == std::string_view::npos) refuse(change);
  set_field(plan, change.substr(0, equals), value_of(change.substr(equals + 1), change), change);
}

}  // namespace

int Plan::producer_registers(const TargetRow& target) const {
  const int num_warps = consumer_warps(), unit = target.register_unit;
  const int left =
      registers_at_entry(target) * (num_warps + producer_warps) - consumer_registers * num_warps;
  return left / std::max(producer_warps, 1) / unit * unit;
}

std::string Plan::str() const {
  std::string out = "plan { ";
#define PLAN_FIELD(type, name, fallback, doc) \
  fmt::format_to(std::back_inserter(out), #name "={} ", static_cast<int>(name));
#include "ir/plan.def"
#undef PLAN_FIELD
  return out + "}";
}

void Plan::change(std::string_view changes) {
  const std::string fields = plan_fields_of(changes);
  std::string_view text = fields;
  for (auto change = next_change(text); !change.empty(); change = next_change(text))
    apply(*this, change);
}

std::string_view Plan::first_mismatch(std::string_view text) const {
  Plan changed = *this;
  changed.change(text);
  if (changed == *this) return {};
  if (begins_with_schedule(text)) return text;
  for (auto change = next_change(text); !change.empty(); change = next_change(text)) {
    Plan with = *this;
    apply(with, change);
    if (with != *this) return change;
  }
  return {};
}

}  // namespace tegula::ir
