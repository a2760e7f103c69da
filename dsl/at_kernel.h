#pragma once
// Errors of a call without a line refer to the line that called the kernel library or, if that is
// unknown, to the line that made the kernel.
#include <algorithm>
#include <utility>
#include <vector>

#include "tegula/called_from.h"
#include "tegula/error.h"
#include "tegula/location.h"

namespace tegula::dsl {

/// Returns the line that an error about the arguments of a call names.
inline Loc place_of_call(const Loc& made_at) {
  const Loc at = detail::called_from();
  return at.known() ? at : made_at;
}

/// Rethrows the error. Diagnostics without a line, or with a line of the library's own sources, get
/// the line of the call. If the line of the call is unknown, those without a line, or with a line
/// of the language's own sources, get `made_at`.
template <class E>
[[noreturn]] void rethrow_at(const Loc& made_at, const E& e) {
  std::vector<Diagnostic> all = e.diagnostics();
  const auto is_placed = [](const Diagnostic& d) {
    return d.loc.known() && !detail::is_of_call(d.loc) &&
           !detail::is_source_of_language(d.loc.file);
  };
  if (std::ranges::all_of(all, is_placed)) throw;
  for (Diagnostic& d : all)
    if (!detail::called_from().known() &&
        (!d.loc.known() || detail::is_source_of_language(d.loc.file)))
      d.loc = made_at;
  throw E(std::move(all));  // its constructor places it at the call
}

/// Calls `f`. CompileErrors and ProgramErrors are rethrown by rethrow_at(); a DeviceError without a
/// line gets `made_at`.
template <class F>
decltype(auto) at_kernel(const Loc& made_at, const F& f) {
  try {
    return f();
  } catch (const CompileError& e) {
    rethrow_at(made_at, e);
  } catch (const ProgramError& e) {
    rethrow_at(made_at, e);
  } catch (const DeviceError& e) {
    Diagnostic d = e.diagnostic();
    if (d.loc.known()) throw;
    d.loc = made_at;
    throw DeviceError(std::move(d), e.code(), e.name());
  }
}

}  // namespace tegula::dsl
