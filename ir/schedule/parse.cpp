#include <fmt/format.h>

#include <tuple>

#include "ir/schedule/scanner.h"
#include "ir/schedule/text.h"

namespace tegula::ir {
namespace {

class Parser {
 public:
  Parser(std::string_view text, Loc loc) : in_(text, loc) {}

  Schedule run() {
    in_.expect("schedule");
    const auto target = Target::find(in_.peek());
    if (!target) in_.fail(fmt::format("a target ({})", Target::all_names()));
    in_.take();
    s_.target = *target;
    in_.expect("{");
    while (!in_.take_if("}")) section();
    if (!in_.at_end()) in_.fail("the end");
    return s_;
  }

 private:
  void section() {
    if (in_.take_if("roles")) {
      while (in_.peek(1) == "(") s_.roles.push_back(take_role(in_));
    } else if (in_.take_if("dots")) {
      do s_.dots.push_back(take_dot_form(in_));
      while (in_.take_if(","));
    } else if (in_.take_if("tiles")) {
      s_.tiles = take_tiles(in_);
    } else if (in_.take_if("channel")) {
      s_.channels.push_back(take_channel(in_));
    } else if (in_.take_if("token")) {
      token();
    } else if (in_.at_label()) {
      loop();
    } else {
      in_.fail("a section: roles, dots, tiles, channel, token or a loop's label");
    }
  }

  std::uint8_t role() {
    const std::size_t index = s_.role_index(Name(in_.peek()));
    if (index == s_.roles.size()) in_.fail("a role from the section roles");
    in_.take();
    return static_cast<std::uint8_t>(index);
  }

  void token() {
    Token t;
    t.name = Name(in_.take_name("a token's name"));
    t.role = role();
    std::tie(t.first, t.last) = take_range(in_);
    s_.tokens.push_back(t);
  }

  void loop() {
    LoopSchedule loop;
    loop.loop = Label(in_.take());
    in_.expect("{");
    while (!in_.take_if("}")) loop.steps.push_back(step());
    s_.loops.push_back(std::move(loop));
  }

  Step step() {
    Step step;
    step.op = Label(in_.take_name("a step's label"));
    step.role = role();
    std::tie(step.stage, step.order) = in_.take_place();
    if (in_.take_if("in_flight")) step.in_flight = in_.take_number<std::int8_t>("in_flight");
    step.pin = in_.take_if("pin");
    return step;
  }

  ScheduleScanner in_;
  Schedule s_;
};

}  // namespace

Schedule parse_schedule(std::string_view text, Loc loc) { return Parser(text, loc).run(); }

}  // namespace tegula::ir
