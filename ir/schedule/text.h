#pragma once
// The text form of a Schedule: canonical printing, parsing, hashing (grammar: docs/schedule.md).
#include <string>
#include <string_view>

#include "ir/schedule/schedule.h"
#include "support/hash.h"

namespace tegula::ir {

/// Returns the Schedule with the steps of each loop sorted by role and order, and orders renumbered
/// 0, 1, 2, .. within each role. A loop in which two steps of a role have equal orders keeps its
/// numbers.
Schedule canonical(Schedule s);

/// Returns the canonical text. It is equal for Schedules with the same meaning and omits fields
/// that have their default values. parse_schedule(print(s)) == canonical(s).
std::string print(const Schedule& s);

/// Parses the text of a Schedule. Throws CompileError at the offending line, counted from `loc`.
Schedule parse_schedule(std::string_view text, Loc loc = {});

/// Returns the Schedule with its channels renamed c0, c1, .. and its tokens t0, t1, .. in order.
Schedule with_numbered_names(Schedule s);

/// Returns the hash of the canonical text, which does not depend on the names of channels and
/// tokens.
Hash128 hash(const Schedule& s);

}  // namespace tegula::ir
