#pragma once
#include <string_view>
#include <vector>

#include "tegula/error.h"
#include "tegula/location.h"

/// Location of the user's call of the kernel library, to which errors are attributed.
namespace tegula::detail {

/// Returns the user's line that called the kernel library on this thread; unknown outside of a
/// call.
Loc called_from();
/// Begins or ends a call; returns the previous value of `called_from`.
Loc set_called_from(Loc loc);

/// Returns true if an error at this location belongs to the current call of the library: the line
/// of the call is known, and the location is unknown or in the library's own sources.
bool is_of_call(const Loc& loc);
/// Returns true if `file` is a source of the language (dsl/) or one of its headers, where no
/// location of a user's program can be.
bool is_source_of_language(std::string_view file);
/// Returns the diagnostics of a library call, each with a location in the user's code. Those in the
/// user's lambdas keep theirs; others get that of the call, and a note with the library's line.
std::vector<Diagnostic> at_caller(std::vector<Diagnostic> all);

}  // namespace tegula::detail
