#pragma once
// A Schedule that a person writes or edits, judged for a kernel.
#include <string_view>

#include "ir/schedule/carried_out.h"
#include "ir/schedule/reason.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// `text` is a whole Schedule, or edits (edits.h) of the one that the passes carry out for a kernel
/// in tile form; empty: that one itself. Throws CompileError with every reason that refuses it, the
/// rule as its code.
CarriedOut requested_schedule(const Kernel& tile, PassContext& context, std::string_view text);

/// The reasons as one error; there is at least one.
[[noreturn]] void throw_reasons(const Reasons& reasons);

}  // namespace tegula::ir
