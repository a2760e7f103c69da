#include "ir/schedule/patch.h"
#include "ir/schedule/scanner.h"

namespace tegula::ir {
namespace {

using What = decltype(Edit::what);

What channel_edit(ScheduleScanner& in) {
  const Name channel(in.take_name("a channel's name"));
  if (in.take_if("slots")) return SetSlots{channel, static_cast<int>(in.take_int("slots", 1, 64))};
  if (in.take_if("kind")) return SetKind{channel, take_channel_kind(in)};
  if (in.take_if("as")) return SetViews{channel, take_views(in)};
  if (in.take_if("over")) return SetOver{channel, Name(in.take_name("a channel's name"))};
  if (in.take_if("columns"))
    return SetColumns{channel, static_cast<int>(in.take_int("columns", 1, 4096))};
  in.fail("an edit of a channel is slots, kind, as, over or columns");
}

What role_edit(ScheduleScanner& in) {
  const Name role(in.take_name("a role's name"));
  if (in.take_if("regs")) return SetRegs{role, static_cast<int>(in.take_int("registers", 0, 255))};
  if (!in.take_if("warps")) in.fail("an edit of a role is regs or warps");
  const auto warps = static_cast<int>(in.take_int("the warps of a role", 1, 32));
  return SetWarps{role, warps,
                  in.take_if("x") ? static_cast<int>(in.take_int("copies of a role", 1, 8)) : 1};
}

What step_edit(ScheduleScanner& in) {
  const Label op(in.take());
  if (in.take_if("in_flight")) return SetInFlight{op, in.take_number<std::int8_t>("in_flight")};
  if (in.take_if("pin")) return SetPin{op};
  const Name role(in.take_name("a role's name"));
  const auto [stage, order] = in.take_place();
  return SetPlace{op, role, static_cast<std::int8_t>(stage), static_cast<std::int16_t>(order)};
}

What token_edit(ScheduleScanner& in) {
  const Name name(in.take_name("a token's name")), role(in.take_name("a role's name"));
  in.expect("{");
  const Label first(in.take_name("a label"));
  const Label last = in.take_if("..") ? Label(in.take_name("a label")) : first;
  in.expect("}");
  return SetToken{name, role, first, last};
}

What edit(ScheduleScanner& in) {
  if (in.take_if("channel")) return channel_edit(in);
  if (in.take_if("role")) return role_edit(in);
  if (in.take_if("dots")) return SetDot{take_dot_form(in)};
  if (in.take_if("tiles")) return SetTiles{take_tiles(in)};
  if (in.take_if("token")) return token_edit(in);
  if (in.take_if("drop")) return DropToken{Name(in.take_name("a token's name"))};
  if (in.at_label()) return step_edit(in);
  in.fail("an edit begins with channel, role, dots, tiles, token, drop or a step's label");
}

}  // namespace

SchedulePatch parse_edits(std::string_view text, Loc at) {
  ScheduleScanner in(text, at);
  SchedulePatch patch;
  while (!in.at_end()) {
    const Loc line = in.loc();
    patch.push_back({edit(in), line});
    in.take_if(";");
  }
  return patch;
}

}  // namespace tegula::ir
