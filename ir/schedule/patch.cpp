#include "ir/schedule/patch.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/schedule/text.h"

namespace tegula::ir {
namespace {

class Patcher {
 public:
  explicit Patcher(Schedule s) : s_(std::move(s)) {}

  void run(const Edit& edit) {
    at_ = edit.at;
    std::visit([&](const auto& what) { apply(what); }, edit.what);
  }
  PatchedSchedule result() && { return {std::move(s_), std::move(reasons_)}; }

 private:
  void refuse(Rule rule, std::string text) { reasons_.push_back({rule, std::move(text), {}, at_}); }

  Channel* channel(Name name) {
    const auto at = std::ranges::find(s_.channels, name, &Channel::name);
    if (at != s_.channels.end()) return &*at;
    refuse(Rule::L2, fmt::format("there is no channel {}", name.str()));
    return nullptr;
  }
  Role* role(Name name) {
    const std::size_t index = s_.role_index(name);
    if (index < s_.roles.size()) return &s_.roles[index];
    refuse(Rule::L2, fmt::format("there is no role {}", name.str()));
    return nullptr;
  }
  /// The step of a label and its loop.
  std::pair<LoopSchedule*, Step*> find_step(Label op) {
    for (LoopSchedule& loop : s_.loops)
      for (Step& step : loop.steps)
        if (step.op == op) return {&loop, &step};
    refuse(Rule::L1, fmt::format("no loop has a step {}", op.str()));
    return {};
  }

  void apply(const SetSlots& e) {
    if (Channel* c = channel(e.channel)) c->slots = e.slots;
  }
  void apply(const SetKind& e) {
    if (Channel* c = channel(e.channel)) c->kind = e.kind;
  }
  void apply(const SetViews& e) {
    if (Channel* c = channel(e.channel)) c->views = e.views;
  }
  void apply(const SetOver& e) {
    if (Channel* c = channel(e.channel)) c->over = e.over;
  }
  void apply(const SetColumns& e) {
    if (Channel* c = channel(e.channel)) c->columns = e.columns;
  }
  void apply(const SetRegs& e) {
    if (Role* r = role(e.role)) r->regs = e.regs;
  }
  void apply(const SetWarps& e) {
    Role* r = role(e.role);
    if (!r) return;
    r->warps = e.warps;
    r->copies = e.copies;
  }
  void apply(const SetPlace& e) {
    const auto [loop, step] = find_step(e.op);
    const Role* to = role(e.role);
    if (!step || !to) return;
    const auto index = static_cast<std::uint8_t>(to - s_.roles.data());
    for (Step& other : loop->steps)
      if (&other != step && other.role == index && other.order >= e.order) ++other.order;
    step->role = index;
    step->stage = e.stage;
    step->order = e.order;
  }
  void apply(const SetInFlight& e) {
    if (Step* step = find_step(e.op).second) step->in_flight = e.in_flight;
  }
  void apply(const SetPin& e) {
    if (Step* step = find_step(e.op).second) step->pin = true;
  }
  void apply(const SetDot& e) {
    const auto at = std::ranges::find(s_.dots, e.form.dot, &DotForm::dot);
    if (at != s_.dots.end())
      *at = e.form;
    else
      refuse(Rule::L1, fmt::format("there is no dot {}", e.form.dot.str()));
  }
  void apply(const SetTiles& e) { s_.tiles = e.tiles; }
  void apply(const SetToken& e) {
    const Role* r = role(e.role);
    if (!r) return;
    const Token token{e.name, static_cast<std::uint8_t>(r - s_.roles.data()), e.first, e.last};
    const auto at = std::ranges::find(s_.tokens, e.name, &Token::name);
    if (at != s_.tokens.end())
      *at = token;
    else
      s_.tokens.push_back(token);
  }
  void apply(const DropToken& e) {
    if (std::erase_if(s_.tokens, [&](const Token& t) { return t.name == e.name; }) == 0)
      refuse(Rule::L2, fmt::format("there is no token {}", e.name.str()));
  }

  Schedule s_;
  Reasons reasons_;
  Loc at_;
};

}  // namespace

PatchedSchedule apply_patch(Schedule s, const SchedulePatch& patch) {
  Patcher patcher(canonical(std::move(s)));
  for (const Edit& edit : patch) patcher.run(edit);
  return std::move(patcher).result();
}

}  // namespace tegula::ir
