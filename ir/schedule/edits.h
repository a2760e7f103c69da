#pragma once
// Edits of a Schedule, in the phrases of its grammar:
//   channel NAME slots N | kind K | columns N | multicast | unicast | takes LABEL
//   role NAME regs N | warps N [x N]
//   LABEL ROLE STAGE.ORDER | in_flight N | pin
//   dots LABEL ENGINE [flip]
//   token NAME ROLE { FIRST [.. LAST] }        drop NAME | LABEL
//   tiles ...
// A step is put in front of the one that has its place; a token is added, or replaces that of its
// name, or is dropped; a load or store goes to another channel, or to a new one like its own, or
// leaves it. A store without channel goes through one of one slot.
#include <string_view>

#include "ir/schedule/reason.h"

namespace tegula::ir {

struct EditedSchedule {
  Schedule schedule;
  Reasons reasons;  ///< edits that name what the Schedule does not have, which were left out
};

/// The Schedule with the edits of a text, which `;` may separate. Throws CompileError as
/// parse_schedule does.
EditedSchedule with_edits(Schedule s, std::string_view edits, Loc at = {});

/// Moves a payload from its channel to the one named `to`, which is made like the first where there
/// is none. False, and nothing changes, where no channel has it.
bool move_to_channel(Schedule& s, Label payload, Name to);

}  // namespace tegula::ir
