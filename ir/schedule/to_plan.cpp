#include "ir/schedule/to_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "ir/schedule/staging_rings.h"
#include "ir/schedule/text.h"
#include "support/text.h"

namespace tegula::ir {
namespace {

/// Derives the fields of a plan from a Schedule.
class Fields {
 public:
  explicit Fields(const Schedule& s) : s_(s) {}

  PlanPatch patch() {
    roles();
    tiles();
    rings();
    out_.tma_store = std::ranges::any_of(s_.channels, is_of_stores, &Channel::kind);
    // The token of a ping-pong kernel orders loops; other tokens order MMAs.
    out_.warp_scheduler_barrier = std::ranges::any_of(
        s_.tokens, [](const Token& t) { return !t.first.str().starts_with("loop#"); });
    return out_;
  }

 private:
  bool has_engine(Engine engine) const {
    return std::ranges::find(s_.dots, engine, &DotForm::engine) != s_.dots.end();
  }

  /// Returns the role of the dots, or the last role if no loop contains a dot.
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
    out_.num_warps = r.warps;
    out_.warps_m = is_wgmma ? r.warps : 0;
    out_.warps_n = is_wgmma ? 1 : 0;
    out_.pingpong = r.copies == 2;
    out_.consumer_registers = r.regs;
    out_.producer_warps = s_.roles.size() > 1 ? s_.roles[index == 0 ? 1 : 0].warps : 0;
    out_.wgmma = is_wgmma;
    out_.swap_ab = std::ranges::any_of(s_.dots, &DotForm::flip);
  }

  void tiles() {
    out_.persistent = s_.tiles.order != TileOrder::Each;
    out_.dynamic_scheduler = s_.tiles.order == TileOrder::Counter;
    out_.overlap_epilogue = s_.tiles.overlap;
    out_.min_ctas_per_sm = s_.tiles.ctas;
    out_.multicast = std::ranges::any_of(s_.channels, &Channel::multicast);
  }

  bool is_in_loop(Label load) const {
    return std::ranges::any_of(s_.loops, [&](const LoopSchedule& loop) {
      return std::ranges::find(loop.steps, load, &Step::op) != loop.steps.end();
    });
  }

  /// Sets the slots of the first ring of a loop's loads, of a second ring if its slots differ, and
  /// of stationary operands.
  void rings() {
    int stages = 0, late = 0;
    for (const Channel& c : s_.channels) {
      if (c.kind != ChannelKind::Tma && c.kind != ChannelKind::CpAsync) continue;
      if (!is_in_loop(c.payload.front()))
        out_.once_stages = c.slots;
      else if (stages == 0)
        stages = c.slots;
      else if (c.slots != stages)
        late = c.slots;
    }
    // A wgmma mainloop has at least two slots. Requests for one slot are rejected with the actual
    // count.
    if (stages != 0) out_.stages = std::max(stages, has_engine(Engine::Wgmma) ? 2 : 1);
    out_.late_stages = late;
  }

  const Schedule& s_;
  PlanPatch out_;
};

}  // namespace

PlanPatch plan_fields(const Schedule& s) { return Fields(s).patch(); }

namespace {

/// Returns a text that is equal for Schedules with the same meaning: stages count from the first
/// one of each role, channels and their loads are sorted, and register channels with one slot are
/// omitted because they follow from the stages.
std::string text_to_compare(Schedule s) {
  for (LoopSchedule& loop : s.loops)
    for (std::uint8_t role = 0; role < s.roles.size(); ++role) {
      const auto is_of_role = [&](const Step& step) { return step.role == role; };
      auto steps = loop.steps | std::views::filter(is_of_role);
      if (steps.empty()) continue;
      const std::int8_t first = std::ranges::min(steps, {}, &Step::stage).stage;
      for (Step& step : steps) step.stage = static_cast<std::int8_t>(step.stage - first);
    }
  for (Channel& c : s.channels) std::ranges::sort(c.payload);
  std::ranges::sort(s.channels, {}, [](const Channel& c) { return c.payload.front(); });
  std::erase_if(s.channels,
                [](const Channel& c) { return c.kind == ChannelKind::Register && c.slots == 1; });
  return print(with_numbered_names(s));
}

}  // namespace

std::string first_difference(const Schedule& wanted, const Schedule& carried_out) {
  const std::string have = text_to_compare(carried_out), want = text_to_compare(wanted);
  if (want == have) return {};
  const std::vector<std::string_view> others = split(have, '\n');
  for (std::string_view line : split(want, '\n'))
    if (std::ranges::find(others, line) == others.end()) return std::string(trim(line));
  // No line is missing, but the other Schedule has additional lines.
  const std::vector<std::string_view> lines = split(want, '\n');
  for (std::string_view line : others)
    if (std::ranges::find(lines, line) == lines.end())
      return fmt::format("nothing like '{}'", trim(line));
  return "another order of its lines";
}

}  // namespace tegula::ir
