// Work that can be done before a call: preparing, tuning, adding bundles.
#include <tegula.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dsl/export/exported.h"
#include "dsl/export/failure.h"
#include "dsl/export/kernel_tuner.h"
#include "dsl/export/run.h"
#include "runtime/bundle_lookup.h"
#include "support/errors.h"
#include "tegula/prepare.h"
#include "tegula/report.h"

using namespace tegula;

namespace {

dsl::KernelInstance& kernel_of(const detail::Exported& callee) {
  const auto& kernel = callee.callable().kernel;
  if (!kernel)
    fail(ErrorId::kernel_argument, callee.loc(), {}, "tegula_tune", "the callable", callee.name(),
         "an exported kernel itself: `tegula tune` takes other callables, too");
  return *kernel;
}

}  // namespace

TegulaCode tegula_prepare(const TegulaCallable* callable, const TegulaArg* args,
                          std::int32_t count) {
  return c::guarded([&] {
    const detail::Exported& callee = c::checked(callable);
    const c::Arguments arguments(callee, c::args_of(callee, args, count), true);
    const Stream stream(arguments.device());
    prepare([&] { callee.callable().call(stream, arguments.host(), callee.loc()); });
  });
}

TegulaCode tegula_tune(const TegulaCallable* callable, const TegulaArg* args, std::int32_t count,
                       const char* budget) {
  return c::guarded([&] {
    const detail::Exported& callee = c::checked(callable);
    dsl::KernelInstance& kernel = kernel_of(callee);
    const std::string_view wanted = budget ? budget : "";
    if (wanted != "quick" && wanted != "full")
      fail(ErrorId::kernel_argument, callee.loc(), {}, "tegula_tune", "the budget",
           fmt::format("\"{}\"", wanted), "quick or full");
    const dsl::KernelTuner tuner = dsl::kernel_tuner();
    if (tuner == nullptr) throw InternalError("this program has no tuner");
    TuneOptions options;
    options.budget = wanted == "quick" ? TuneBudget::quick : TuneBudget::full;
    const c::Arguments arguments(callee, c::args_of(callee, args, count));
    tuner(kernel, options, arguments.host());
  });
}

TegulaCode tegula_bundle_add(const char* path) {
  return c::guarded([&] { runtime::add_bundle(path ? path : ""); });
}

std::size_t tegula_report(char* to, std::size_t room) {
  std::string text;
  c::guarded([&] { text = compile_report(); });
  if (room > 0) {
    const std::size_t bytes = std::min(text.size(), room - 1);
    std::memcpy(to, text.data(), bytes);
    to[bytes] = 0;
  }
  return text.size() + 1;
}
