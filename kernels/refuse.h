#pragma once
// The error of a call that does not fit a kernel of the library.
#include <string>
#include <utility>

#include "tegula/error.h"

namespace tegula {

/// `message` names the kernel and what it was given, `hint` what it takes.
[[noreturn]] inline void refuse_call(std::string message, std::string hint) {
  throw CompileError(Diagnostic{"", std::move(message), {}, {}, std::move(hint)});
}

}  // namespace tegula
