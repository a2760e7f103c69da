#pragma once
#include "tegula/location.h"

namespace tegula::detail {

/// The line that calls the library on this thread, as CallPlace (tegula/kernels/call_place.h) sets
/// it; unknown outside of such a call.
Loc& line_of_library_call();

}  // namespace tegula::detail
