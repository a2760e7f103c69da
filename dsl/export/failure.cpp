#include "dsl/export/failure.h"

#include <fmt/format.h>

#include <array>
#include <new>
#include <string_view>
#include <utility>

#include "support/errors.h"

namespace tegula::c {
namespace {

constexpr int kOutOfMemory = 2;  ///< CUDA_ERROR_OUT_OF_MEMORY

struct LastError {
  Failure failure;
  TegulaError shown{TEGULA_OK, 0, "", "", ""};
};

LastError& last() {
  thread_local LastError error;
  return error;
}

/// Returns true for groups of support/errors.def that are about the arguments of a call, not about
/// a kernel's source.
bool is_about_arguments(const Diagnostic& d) {
  static constexpr std::array<std::string_view, 4> kGroups{"T07", "T12", "T16", "T18"};
  for (const std::string_view group : kGroups)
    if (d.code.starts_with(group)) return true;
  return d.code == "T1004";  // a Ptr of a tensor that is not contiguous
}

std::string place_text(const Loc& at) {
  return at.known() ? fmt::format("{}:{}", at.file, at.line) : std::string();
}

Failure failure_of(TegulaCode code, const Diagnostic& d) {
  Failure f{code, 0, d.message, d.hint, place_text(d.loc)};
  if (!d.code.empty()) f.text = fmt::format("{}: {}", d.code, d.message);
  for (const Note& note : d.notes)
    f.text += fmt::format("\n{}: {}", place_text(note.loc), note.text);
  return f;
}

}  // namespace

Failure current_failure() {
  try {
    throw;
  } catch (const Failure& kept) {
    return kept;
  } catch (const CompileError& e) {
    return failure_of(is_about_arguments(e.diagnostic()) ? TEGULA_ARGUMENT : TEGULA_COMPILE,
                      e.diagnostic());
  } catch (const ProgramError& e) {
    return failure_of(TEGULA_COMPILE, e.diagnostic());
  } catch (const DeviceError& e) {
    const bool is_memory = e.diagnostic().code == row(ErrorId::no_memory).code ||
                           (e.code() == kOutOfMemory && !e.name().empty());
    Failure f = failure_of(is_memory ? TEGULA_MEMORY : TEGULA_DEVICE, e.diagnostic());
    f.driver_code = e.code();
    return f;
  } catch (const InternalError& e) {
    return {TEGULA_INTERNAL, 0, e.message(), e.reproducer(), ""};
  } catch (const std::bad_alloc&) {
    return {TEGULA_MEMORY, 0, "no host memory is left", "", ""};
  } catch (const std::exception& e) {
    return {TEGULA_COMPILE, 0, fmt::format("the callable threw an exception: {}", e.what()), "",
            ""};
  } catch (...) {
    return {TEGULA_COMPILE, 0, "the callable threw an object that is not a std::exception", "", ""};
  }
}

TegulaCode keep(Failure failure) noexcept {
  LastError& error = last();
  error.failure = std::move(failure);
  const Failure& f = error.failure;
  error.shown = {f.code, f.driver_code, f.text.c_str(), f.hint.c_str(), f.where.c_str()};
  return f.code;
}

TegulaCode keep_out_of_memory() noexcept {
  last().shown = {TEGULA_MEMORY, 0, "no host memory is left", "", ""};
  return TEGULA_MEMORY;
}

void keep_success() noexcept { last().shown = {TEGULA_OK, 0, "", "", ""}; }

const TegulaError* last_error() noexcept { return &last().shown; }

}  // namespace tegula::c
