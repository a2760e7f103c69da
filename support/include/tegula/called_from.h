#pragma once
#include <vector>

#include "tegula/error.h"
#include "tegula/location.h"

/// The line that called the kernel library, for the errors of the call.
namespace tegula::detail {

/// The user's line that called the kernel library, which runs on this thread; unknown outside of a
/// call.
Loc called_from();
/// Begins or ends a call; returns what `called_from` was.
Loc set_called_from(Loc at);

/// Whether an error at this place, thrown now, would be about a line of the library's own sources,
/// or about none, where the line of the user's call is known.
bool is_of_call(const Loc& at);
/// The diagnostics of a call of the library, each about a line of the user's: those of the user's
/// lambdas keep it, others get the call's, and a note where in the library they come from.
std::vector<Diagnostic> at_caller(std::vector<Diagnostic> all);

}  // namespace tegula::detail
