#pragma once
// Reports the mistakes listed in errors.def.
#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tegula/error.h"

namespace tegula {

enum class ErrorId : std::uint16_t {
#define TEGULA_ERROR(code, name, message, hint) name,
#include "support/errors.def"
#undef TEGULA_ERROR
};

struct ErrorRow {
  const char* code;
  const char* name;
  const char* message;
  const char* hint;
};
const ErrorRow& row(ErrorId mistake);
int mistake_count();

/// Returns the diagnostic of a mistake. `arguments` (`count` of them) fill the {} of the message,
/// then those of the hint. Throws InternalError if their number is wrong.
Diagnostic diagnose(ErrorId mistake, Loc loc, std::vector<Note> notes, fmt::format_args arguments,
                    std::size_t count);

template <class... T>
Diagnostic diagnostic(ErrorId mistake, Loc loc, std::vector<Note> notes, const T&... arguments) {
  return diagnose(mistake, loc, std::move(notes), fmt::make_format_args(arguments...),
                  sizeof...(T));
}
template <class... T>
[[noreturn]] void fail(ErrorId mistake, Loc loc, std::vector<Note> notes, const T&... arguments) {
  throw CompileError(diagnostic(mistake, loc, std::move(notes), arguments...));
}

}  // namespace tegula
