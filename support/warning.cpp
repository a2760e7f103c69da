#include "tegula/warning.h"

#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <string_view>
#include <utility>

#include "support/env.h"
#include "support/warnings.h"

namespace tegula {
namespace {

struct Handler {
  std::mutex mutex;
  WarningHandler call;
};

Handler& handler() {
  static auto* one = new Handler();  // kernels may be compiled while statics are destroyed
  return *one;
}

}  // namespace

std::string Warning::str() const {
  std::string at;
  if (place.known()) at = fmt::format("{}:{}:", place.file, place.line);
  if (place.known() && place.column != 0) at += fmt::format("{}:", place.column);
  const std::string subject = kernel.empty() ? "" : fmt::format("kernel {}: ", kernel);
  std::string out =
      fmt::format("{}{}warning {}: {}{}", at, at.empty() ? "" : " ", code, subject, text);
  if (!hint.empty()) out += "\n  hint: " + hint;
  return out;
}

WarningHandler set_warning_handler(WarningHandler next) {
  const std::lock_guard lock(handler().mutex);
  return std::exchange(handler().call, std::move(next));
}

namespace {
thread_local int muted = 0;
/// Code of the warning about spilled registers.
constexpr std::string_view kSpillsCode = "T1501";
}  // namespace

WarningsMuted::WarningsMuted() { ++muted; }
WarningsMuted::~WarningsMuted() { --muted; }
bool warnings_are_muted() { return muted > 0; }

void report_warnings(std::span<const Warning> warnings) {
  if (warnings.empty() || warnings_are_muted()) return;
  WarningHandler call;
  {
    const std::lock_guard lock(handler().mutex);
    call = handler().call;
  }
  for (const Warning& w : warnings) {
    if (call)
      call(w);
    else if (env().warn == "1" || (env().warn == "spills" && w.code == kSpillsCode))
      std::fputs((w.str() + "\n").c_str(), stderr);
  }
}

}  // namespace tegula
