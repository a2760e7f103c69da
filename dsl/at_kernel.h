#pragma once
// Errors of a call whose line nobody knows are about the line that made the kernel.
#include <algorithm>
#include <vector>

#include "tegula/error.h"
#include "tegula/location.h"

namespace tegula::dsl {

/// Throws the error again, whose diagnostics without a line are about `made_at`.
template <class E>
[[noreturn]] void rethrow_at(const Loc& made_at, const E& e) {
  std::vector<Diagnostic> all = e.diagnostics();
  const auto is_known = [](const Diagnostic& d) { return d.loc.known(); };
  if (std::ranges::all_of(all, is_known)) throw;
  for (Diagnostic& d : all)
    if (!is_known(d)) d.loc = made_at;
  throw E(std::move(all));
}

/// Calls `f`. What it refuses without knowing a line is said of the kernel's own line.
template <class F>
decltype(auto) at_kernel(const Loc& made_at, const F& f) {
  try {
    return f();
  } catch (const CompileError& e) {
    rethrow_at(made_at, e);
  } catch (const ProgramError& e) {
    rethrow_at(made_at, e);
  }
}

}  // namespace tegula::dsl
