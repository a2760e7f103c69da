#pragma once
// Schedules that a user writes or edits, checked for a kernel.
#include <string_view>

#include "ir/schedule/carried_out.h"
#include "ir/schedule/reason.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Returns the Schedule that `text` requests for a kernel in tile form. `text` is a whole Schedule,
/// or edits (edits.h) of the one that the passes produce; if it is empty, that one is returned.
/// Throws CompileError with one diagnostic per reason why it is not legal; the code of a diagnostic
/// is the violated rule.
CarriedOut requested_schedule(const Kernel& tile, PassContext& context, std::string_view text);

/// Throws all reasons as one CompileError. Requires at least one reason.
[[noreturn]] void throw_reasons(const Reasons& reasons);

}  // namespace tegula::ir
