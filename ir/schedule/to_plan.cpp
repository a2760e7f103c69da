#include "ir/schedule/to_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/schedule/text.h"
#include "support/text.h"

namespace tegula::ir {
namespace {

constexpr std::string_view kBegin = "schedule ";

/// Length of the Schedule's text: up to the brace that closes its first one.
std::size_t schedule_length(std::string_view changes) {
  int depth = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (changes[i] == '{') ++depth;
    if (changes[i] == '}' && --depth == 0) return i + 1;
  }
  return changes.size();
}

/// Writes the fields of a plan one after the other.
class Fields {
 public:
  explicit Fields(const Schedule& s) : s_(s) {}

  std::string str() {
    roles();
    tiles();
    rings();
    for (const Channel& c : s_.channels)
      if (c.kind == ChannelKind::Store || c.kind == ChannelKind::Reduce) {
        set("tma_store", 1);
        if (c.columns != 0) set("epilogue_tile_n", c.columns);
      }
    const bool orders_dots = std::ranges::any_of(
        s_.tokens, [](const Token& t) { return t.first.str().starts_with("dot#"); });
    set("warp_scheduler_barrier", orders_dots);
    return out_;
  }

 private:
  void set(std::string_view field, int value) { out_ += fmt::format("{}={} ", field, value); }

  bool has_engine(Engine engine) const {
    return std::ranges::find(s_.dots, engine, &DotForm::engine) != s_.dots.end();
  }

  /// The role of the dots; else the last one.
  std::size_t consumer() const {
    for (const LoopSchedule& loop : s_.loops)
      for (const Step& step : loop.steps)
        if (s_.find_dot(step.op)) return step.role;
    return s_.roles.size() - 1;
  }

  void roles() {
    if (s_.roles.empty()) return;
    const std::size_t index = consumer();
    const Role& r = s_.roles[index];
    const bool is_wgmma = has_engine(Engine::Wgmma);
    set("num_warps", r.warps);
    set("warps_m", is_wgmma ? r.warps : 0);
    set("warps_n", is_wgmma ? 1 : 0);
    set("pingpong", r.copies == 2);
    set("consumer_registers", r.regs);
    set("producer_warps", s_.roles.size() > 1 ? s_.roles[index == 0 ? 1 : 0].warps : 0);
    set("wgmma", is_wgmma);
    set("swap_ab", std::ranges::any_of(s_.dots, &DotForm::flip));
  }

  void tiles() {
    set("persistent", s_.tiles.order != TileOrder::Each);
    set("dynamic_scheduler", s_.tiles.order == TileOrder::Counter);
    set("overlap_epilogue", s_.tiles.overlap);
    set("min_ctas_per_sm", s_.tiles.ctas);
    set("multicast", std::ranges::any_of(s_.channels, &Channel::multicast));
  }

  bool is_in_loop(Label load) const {
    return std::ranges::any_of(s_.loops, [&](const LoopSchedule& loop) {
      return std::ranges::find(loop.steps, load, &Step::op) != loop.steps.end();
    });
  }

  /// The first ring of a loop's loads, a second one of other slots, and stationary operands.
  void rings() {
    int stages = 0, late = 0;
    for (const Channel& c : s_.channels) {
      if (c.kind != ChannelKind::Tma && c.kind != ChannelKind::CpAsync) continue;
      if (!is_in_loop(c.payload.front()))
        set("once_stages", c.slots);
      else if (stages == 0)
        stages = c.slots;
      else if (c.slots != stages)
        late = c.slots;
    }
    // The mainloop of wgmmas has two slots at least: who asks for one is told what is had.
    if (stages != 0) set("stages", std::max(stages, has_engine(Engine::Wgmma) ? 2 : 1));
    set("late_stages", late);
  }

  const Schedule& s_;
  std::string out_;
};

}  // namespace

bool begins_with_schedule(std::string_view changes) { return trim(changes).starts_with(kBegin); }

Schedule schedule_of(std::string_view changes, Loc at) {
  changes = trim(changes);
  return parse_schedule(changes.substr(0, schedule_length(changes)), at);
}

std::string plan_fields_of(std::string_view changes) {
  if (!begins_with_schedule(changes)) return std::string(changes);
  changes = trim(changes);
  return plan_fields(schedule_of(changes)) + std::string(changes.substr(schedule_length(changes)));
}

std::string plan_fields(const Schedule& s) { return Fields(s).str(); }

std::string first_difference(const Schedule& wanted, const Schedule& carried_out) {
  const std::string have = print(with_numbered_names(carried_out));
  const std::string want = print(with_numbered_names(wanted));
  if (want == have) return {};
  const std::vector<std::string_view> others = split(have, '\n');
  for (std::string_view line : split(want, '\n'))
    if (std::ranges::find(others, line) == others.end()) return std::string(trim(line));
  // All lines are there, and others besides.
  const std::vector<std::string_view> lines = split(want, '\n');
  for (std::string_view line : others)
    if (std::ranges::find(lines, line) == lines.end())
      return fmt::format("nothing like '{}'", trim(line));
  return "another order of its lines";
}

}  // namespace tegula::ir
