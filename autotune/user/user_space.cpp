#include "autotune/user/user_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <random>
#include <set>

#include "ir/plan_request.h"
#include "ir/text.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::autotune {
namespace {

constexpr std::size_t kSampled = 256;

std::vector<dsl::Tunable> tunables_of(const dsl::KernelInstance& kernel, const Tuning& values,
                                      std::span<const dsl::HostArg> args) {
  const auto tuned = kernel.with(values);
  return tuned->trace(tuned->signature(args)).tunables;
}

/// Returns the first name in order of use that has no value yet.
const dsl::Tunable* first_open(const std::vector<dsl::Tunable>& all, const Tuning& values) {
  const auto at =
      std::ranges::find_if(all, [&](const dsl::Tunable& t) { return !values.contains(t.name); });
  return at == all.end() ? nullptr : &*at;
}

/// Returns the values of a trace, and those given.
Tuning values_of(const std::vector<dsl::Tunable>& traced, Tuning given) {
  for (const dsl::Tunable& t : traced) given[t.name] = t.value;
  return given;
}

class Discovery {
 public:
  Discovery(const dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args)
      : kernel_(kernel), args_(args) {}

  UserSpace run() {
    const auto trace = [&](const Tuning& values) {
      traced_ = try_trace(values);
      if (traced_) add(values_of(*traced_, kernel_.tuning()));
      return traced_ ? &*traced_ : nullptr;
    };
    tunables_of(kernel_, kernel_.tuning(), args_);  // throws
    if (!walk_settings(
            kernel_.tuning(), trace, [](const dsl::Tunable&) { return true; }, kMaxSettings))
      sample();
    return std::move(space_);
  }

 private:
  void add(const Tuning& values) {
    if (known_.insert(values).second) space_.settings.push_back(values);
  }

  /// Returns the tunables under these values, or nullopt if the kernel rejects them.
  std::optional<std::vector<dsl::Tunable>> try_trace(const Tuning& values) {
    try {
      return tunables_of(kernel_, values, args_);
    } catch (const CompileError& e) {
      space_.refused.emplace_back(values, e.what());
      return std::nullopt;
    }
  }

  /// Assigns values by `pick` to the names in order of use.
  template <class Pick>
  void add_path(const Pick& pick) {
    Tuning values = kernel_.tuning();
    for (;;) {
      const auto all = try_trace(values);
      if (!all) return;
      const dsl::Tunable* open = first_open(*all, values);
      if (open == nullptr) return add(values);
      values[open->name] = pick(*open);
    }
  }

  /// Adds the defaults, the settings with one changed value, and random settings.
  void sample() {
    const Tuning defaults = space_.settings.front();
    space_ = {{defaults}, {}, true};
    known_ = {defaults};
    for (const dsl::Tunable& changed : tunables_of(kernel_, defaults, args_))
      for (const int v : changed.set)
        add_path([&](const dsl::Tunable& t) { return t.name == changed.name ? v : t.value; });
    std::mt19937 random(1);
    for (std::size_t i = 0; i < 4 * kSampled && space_.settings.size() < kSampled; ++i)
      add_path([&](const dsl::Tunable& t) { return t.set[random() % t.set.size()]; });
  }

  const dsl::KernelInstance& kernel_;
  std::span<const dsl::HostArg> args_;
  UserSpace space_;
  std::set<Tuning> known_;
  std::optional<std::vector<dsl::Tunable>> traced_;
};

class SettingsWalk {
 public:
  SettingsWalk(const TraceTunables& trace, bool (*varies)(const dsl::Tunable&), std::size_t left)
      : trace_(trace), varies_(varies), left_(left) {}

  /// Visits the settings that differ from that of `values` in names from the `from`-th on.
  bool visit(const Tuning& values, std::size_t from) {
    if (left_ == 0) return false;
    --left_;
    const std::vector<dsl::Tunable>* const traced = trace_(values);
    if (traced == nullptr) return true;
    const std::vector<dsl::Tunable> all = *traced;
    Tuning prefix = values;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_open = i >= from && !values.contains(all[i].name) && varies_(all[i]);
      for (const int v : all[i].set) {
        if (!is_open || v == all[i].value) continue;
        Tuning next = prefix;
        next[all[i].name] = v;
        if (!visit(next, i + 1)) return false;
      }
      prefix[all[i].name] = all[i].value;
    }
    return true;
  }

 private:
  const TraceTunables& trace_;
  bool (*varies_)(const dsl::Tunable&);
  std::size_t left_;
};

std::string argument_text(const dsl::HostArg& a) {
  if (a.kind == dsl::ParamKind::Constant) return "constant";  // the trace contains its value
  if (a.tensor == nullptr) return a.kind == dsl::ParamKind::View ? "none" : "scalar";
  const auto dims = [](const Dims& d) {
    return fmt::format("{}", fmt::join(d.begin(), d.end(), ","));
  };
  return fmt::format("{}[{}]({})", name(a.tensor->dtype()), dims(a.tensor->shape()),
                     dims(a.tensor->strides()));
}

}  // namespace

bool walk_settings(const Tuning& given, const TraceTunables& trace,
                   bool (*varies)(const dsl::Tunable&), std::size_t most) {
  return SettingsWalk(trace, varies, most).visit(given, 0);
}

UserSpace discover(const dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args) {
  return Discovery(kernel, args).run();
}

std::vector<int> neighbours(const UserSpace& space, int of) {
  std::map<std::string, std::set<int>> axes;
  for (const Tuning& s : space.settings)
    for (const auto& [name, value] : s) axes[name].insert(value);
  const Tuning& from = space.settings[static_cast<std::size_t>(of)];
  std::vector<int> found;
  const auto add = [&](const std::string& name, int value) {
    Tuning to = from;
    to[name] = value;
    const auto at = std::ranges::find(space.settings, to);
    if (at != space.settings.end()) found.push_back(static_cast<int>(at - space.settings.begin()));
  };
  for (const auto& [name, value] : from) {
    const std::set<int>& axis = axes[name];
    const auto at = axis.find(value);
    if (at != axis.begin()) add(name, *std::prev(at));
    if (std::next(at) != axis.end()) add(name, *std::next(at));
  }
  return found;
}

std::string problem_text(dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args) {
  const dsl::TraceResult traced = kernel.trace(kernel.signature(args));
  std::string text = "ir=" + hash128(ir::print(traced.kernel, {.locations = false})).hex();
  for (const dsl::HostArg& a : kernel.run_time_args(args)) text += " " + argument_text(a);
  return text;
}

namespace {

constexpr std::string_view kFields = " | ";  // precedes the preferred fields

std::optional<Tuning> parse_tuning(std::string_view text) {
  Tuning values;
  for (const std::string_view item : split(text, ' ')) {
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == item.npos) return std::nullopt;
    const std::string_view number = item.substr(equals + 1);
    int value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
    values[std::string(item.substr(0, equals))] = value;
  }
  return values;
}

}  // namespace

std::string choice_text(const dsl::TunedChoice& choice) {
  const std::string values = str(choice.values);
  if (choice.preferred == PlanPatch()) return values;
  return values + std::string(kFields) + ir::str(choice.preferred);
}

std::optional<dsl::TunedChoice> parse_choice(std::string_view text) {
  const std::size_t end = text.find(kFields);
  const auto values = parse_tuning(text.substr(0, end));
  if (!values) return std::nullopt;
  if (end == text.npos) return dsl::TunedChoice{*values};
  try {
    return dsl::TunedChoice{*values, ir::parse_plan_patch(text.substr(end + kFields.size()))};
  } catch (const CompileError&) {
    return std::nullopt;
  }
}

}  // namespace tegula::autotune
