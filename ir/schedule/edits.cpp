#include "ir/schedule/edits.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "ir/schedule/scanner.h"
#include "ir/schedule/text.h"

namespace tegula::ir {
namespace {

/// Removes a payload from its channel, and the channel if it becomes empty. Returns a copy of the
/// channel, or nothing if no channel carries the payload.
std::optional<Channel> leave_channel(Schedule& s, Label payload) {
  const auto from = std::ranges::find_if(s.channels, [&](const Channel& c) {
    return std::ranges::find(c.payload, payload) != c.payload.end();
  });
  if (from == s.channels.end()) return std::nullopt;
  std::erase(from->payload, payload);
  Channel left = *from;
  if (left.payload.empty()) s.channels.erase(from);
  return left;
}

class Editor {
 public:
  Editor(Schedule s, std::string_view edits, Loc loc)
      : s_(canonical(std::move(s))), in_(edits, loc) {}

  EditedSchedule run() {
    while (!in_.at_end()) {
      at_ = in_.loc();
      edit();
      in_.take_if(";");
    }
    return {std::move(s_), std::move(reasons_)};
  }

 private:
  void edit() {
    if (in_.take_if("channel")) return channel();
    if (in_.take_if("role")) return role();
    if (in_.take_if("dots")) return dot();
    if (in_.take_if("token")) return token();
    if (in_.take_if("drop")) return drop();
    if (in_.at_label()) return step();
    if (!in_.take_if("tiles"))
      in_.fail("an edit: channel, role, dots, tiles, token, drop or an op's label");
    s_.tiles = take_tiles(in_);
  }

  template <class... Args>
  void refuse(Rule rule, fmt::format_string<Args...> text, Args&&... args) {
    reasons_.push_back({rule, fmt::format(text, std::forward<Args>(args)...), {}, at_});
  }

  /// Returns the role or channel of this name. If there is none, records a reason and returns a
  /// dummy that absorbs the edit.
  template <class T>
  T& found(std::vector<T>& list, Name name, std::string_view what) {
    const auto found = std::ranges::find(list, name, &T::name);
    if (found != list.end()) return *found;
    refuse(Rule::L2, "there is no {} {}", what, name);
    return std::get<T>(nowhere_);
  }
  Role& named_role() { return found(s_.roles, Name(in_.take_name("a role's name")), "role"); }
  bool is_there(const Role& role) const { return &role != &std::get<Role>(nowhere_); }
  std::uint8_t index(const Role& role) const {
    return static_cast<std::uint8_t>(&role - s_.roles.data());
  }

  void channel() {
    const Name name(in_.take_name("a channel's name"));
    if (in_.take_if("takes")) {
      const Label payload(in_.take());
      if (!move_to_channel(s_, payload, name) && !add_store(payload, name))
        refuse(Rule::L1, "no channel has {}", payload);
      return;
    }
    Channel& c = found(s_.channels, name, "channel");
    if (in_.take_if("slots"))
      c.slots = in_.take_number("slots", 1, 64);
    else if (in_.take_if("kind"))
      c.kind = take_channel_kind(in_);
    else if (in_.take_if("columns"))
      c.columns = in_.take_number("columns", 1, 4096);
    else if (in_.take_if("multicast"))
      c.multicast = true;
    else if (in_.take_if("unicast"))
      c.multicast = false;
    else
      in_.fail("slots, kind, columns, multicast, unicast or takes");
  }

  void role() {
    Role& r = named_role();
    if (in_.take_if("regs")) {
      r.regs = in_.take_number("registers", 0, 255);
    } else if (in_.take_if("warps")) {
      take_warps(in_, r);
    } else {
      in_.fail("regs or warps");
    }
  }

  void dot() {
    const DotForm form = take_dot_form(in_);
    const auto found = std::ranges::find(s_.dots, form.dot, &DotForm::dot);
    if (found == s_.dots.end()) return refuse(Rule::L1, "there is no dot {}", form.dot);
    *found = form;
  }

  void token() {
    Token t;
    t.name = Name(in_.take_name("a token's name"));
    const Role& r = named_role();
    std::tie(t.first, t.last) = take_range(in_);
    if (!is_there(r)) return;
    t.role = index(r);
    const auto found = std::ranges::find(s_.tokens, t.name, &Token::name);
    if (found != s_.tokens.end())
      *found = t;
    else
      s_.tokens.emplace_back(t);
  }

  /// Routes a store without a channel through channel `to`, which is created with one slot if it
  /// does not exist. Returns false if the payload is not a store.
  bool add_store(Label payload, Name to) {
    if (!payload.str().starts_with("store#")) return false;
    auto found = std::ranges::find(s_.channels, to, &Channel::name);
    if (found == s_.channels.end()) {
      found = s_.channels.insert(found, Channel());
      found->name = to;
      found->kind = ChannelKind::Store;
    }
    found->payload.push_back(payload);
    return true;
  }

  void drop() {
    if (in_.at_label()) {
      const Label payload(in_.take());
      if (!leave_channel(s_, payload)) refuse(Rule::L1, "no channel has {}", payload);
      return;
    }
    const Name name(in_.take_name("a token's name"));
    if (std::erase_if(s_.tokens, [&](const Token& t) { return t.name == name; }) == 0)
      refuse(Rule::L2, "there is no token {}", name);
  }

  void step() {
    const Label op(in_.take());
    const auto contains_step = [&](const LoopSchedule& loop) {
      return std::ranges::find(loop.steps, op, &Step::op) != loop.steps.end();
    };
    const auto loop = std::ranges::find_if(s_.loops, contains_step);
    if (loop == s_.loops.end()) refuse(Rule::L1, "no loop has a step {}", op);
    Step other;
    Step& step = loop == s_.loops.end() ? other : *std::ranges::find(loop->steps, op, &Step::op);
    if (in_.take_if("in_flight")) {
      step.in_flight = in_.take_number<std::int8_t>("in_flight");
    } else if (in_.take_if("pin")) {
      step.pin = true;
    } else {
      const Role& to = named_role();
      const auto [stage, order] = in_.take_place();
      if (loop != s_.loops.end() && is_there(to)) move(*loop, step, {op, index(to), stage, order});
    }
  }

  static void move(LoopSchedule& loop, Step& step, const Step& to) {
    for (Step& other : loop.steps)
      if (&other != &step && other.role == to.role && other.order >= to.order) ++other.order;
    std::tie(step.role, step.stage, step.order) = std::tie(to.role, to.stage, to.order);
  }

  Schedule s_;
  ScheduleScanner in_;
  Reasons reasons_;
  Loc at_;                             ///< of the current edit
  std::tuple<Channel, Role> nowhere_;  ///< dummies that edits of unknown names modify
};

}  // namespace

bool move_to_channel(Schedule& s, Label payload, Name to) {
  auto removed = leave_channel(s, payload);
  if (!removed) return false;
  Channel made = std::move(*removed);
  made.name = to, made.payload = {};
  auto found = std::ranges::find(s.channels, to, &Channel::name);
  if (found == s.channels.end()) found = s.channels.insert(found, std::move(made));
  found->payload.push_back(payload);
  return true;
}

EditedSchedule with_edits(Schedule s, std::string_view edits, Loc loc) {
  return Editor(std::move(s), edits, loc).run();
}

}  // namespace tegula::ir
