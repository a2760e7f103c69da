#pragma once
// The text form of a Schedule: canonical printing, parsing, hashing (grammar: docs/schedule.md).
#include <string>
#include <string_view>

#include "ir/schedule/schedule.h"
#include "support/hash.h"

namespace tegula::ir {

/// The Schedule with its loops' steps sorted by role and order, and orders counted 0, 1, 2, ..
/// within each role of a loop. Steps of one role with equal orders keep theirs as they are.
Schedule canonical(Schedule s);

/// The canonical text: equal for Schedules that mean the same, fields at their defaults left out.
/// parse_schedule(print(s)) == canonical(s).
std::string print(const Schedule& s);

/// Throws CompileError with the line of the text (counted from `at`) that is no Schedule's.
Schedule parse_schedule(std::string_view text, Loc at = {});

/// The Schedule with channels called c0, c1, .. and tokens t0, t1, .. in their order.
Schedule with_numbered_names(Schedule s);

/// Hash of the canonical text; names of channels and tokens do not count.
Hash128 hash(const Schedule& s);

}  // namespace tegula::ir
