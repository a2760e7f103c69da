#pragma once
// Typed edits of a Schedule. A text of edits has the phrases of the grammar of a Schedule:
//   channel NAME slots N | kind K | as VIEWS | over NAME | columns N      role NAME regs N | warps
//   N [x N] LABEL ROLE STAGE.ORDER | in_flight N | pin                            dots LABEL ENGINE
//   [flip] [split S] token NAME ROLE { FIRST [.. LAST] }                                   drop
//   NAME           tiles ...
#include <string_view>
#include <variant>
#include <vector>

#include "ir/schedule/reason.h"

namespace tegula::ir {

struct SetSlots {
  Name channel;
  int slots;
};
struct SetKind {
  Name channel;
  ChannelKind kind;
};
struct SetViews {
  Name channel;
  std::vector<View> views;
};
struct SetOver {
  Name channel, over;
};
struct SetColumns {
  Name channel;
  int columns;
};
struct SetRegs {
  Name role;
  int regs;
};
struct SetWarps {
  Name role;
  int warps, copies;
};
/// Puts a step in front of the one that has its place.
struct SetPlace {
  Label op;
  Name role;
  std::int8_t stage;
  std::int16_t order;
};
struct SetInFlight {
  Label op;
  std::int8_t in_flight;
};
struct SetPin {
  Label op;
};
struct SetDot {
  DotForm form;
};
struct SetTiles {
  Tiles tiles;
};
/// Adds a token, or replaces that of its name.
struct SetToken {
  Name name, role;
  Label first, last;
};
struct DropToken {
  Name name;
};

struct Edit {
  std::variant<SetSlots, SetKind, SetViews, SetOver, SetColumns, SetRegs, SetWarps, SetPlace,
               SetInFlight, SetPin, SetDot, SetTiles, SetToken, DropToken>
      what;
  Loc at;  ///< line of the edit's text
};

using SchedulePatch = std::vector<Edit>;

/// Reads edits, which `;` may separate. Throws CompileError as parse_schedule does.
SchedulePatch parse_edits(std::string_view text, Loc at = {});

struct PatchedSchedule {
  Schedule schedule;
  Reasons reasons;  ///< edits that name what the Schedule does not have, which were left out
};
PatchedSchedule apply_patch(Schedule s, const SchedulePatch& patch);

}  // namespace tegula::ir
