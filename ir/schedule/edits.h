#pragma once
// Edits of a Schedule, in the phrases of its grammar:
//   channel NAME slots N | kind K | columns N | multicast | unicast | takes LABEL
//   role NAME regs N | warps N [x N]
//   LABEL ROLE STAGE.ORDER | in_flight N | pin
//   dots LABEL ENGINE [flip]
//   token NAME ROLE { FIRST [.. LAST] }        drop NAME | LABEL
//   tiles ...
// A step is inserted before the step that has its place. A token is added, replaces the token of
// the same name, or is dropped. A load or store moves to another channel, moves to a new channel
// with the settings of its old one, or leaves its channel. A new channel for a store that had none
// gets one slot.
#include <string_view>

#include "ir/schedule/reason.h"

namespace tegula::ir {

struct EditedSchedule {
  Schedule schedule;
  Reasons reasons;  ///< one per edit that names something unknown; such edits are skipped
};

/// Returns the Schedule with the edits of a text applied; `;` may separate them. Throws
/// CompileError for malformed text, as parse_schedule does.
EditedSchedule with_edits(Schedule s, std::string_view edits, Loc loc = {});

/// Moves a payload from its channel to the channel named `to`, which is created with the settings
/// of the old one if it does not exist. Returns false and changes nothing if no channel carries the
/// payload.
bool move_to_channel(Schedule& s, Label payload, Name to);

}  // namespace tegula::ir
