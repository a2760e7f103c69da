#pragma once
// The error of a call that does not fit a kernel of the library.
#include "support/errors.h"
#include "tegula/kernels/call_place.h"

namespace tegula {

/// Throws the mistake, a row of T16 in support/errors.def, at the line of the call.
template <class... T>
[[noreturn]] void throw_argument_error(ErrorId mistake, const T&... arguments) {
  fail(mistake, detail::CallPlace::current(), {}, arguments...);
}

}  // namespace tegula
