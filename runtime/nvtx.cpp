// The client's side of NVTX version 3: loads a profiler's library and has it fill in a table of
// functions for each module (NVTX's header nvtxTypes.h has the numbers). This process calls two of
// the functions; the others exist because profilers fill in all functions that they know.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/shared_library.h"
#include "support/env.h"
#include "tegula/profiler_range.h"

namespace tegula {
namespace {

using Function = void (*)();

constexpr int kCore = 1, kModules = 7;
/// Number of functions of each module, including the unused number 0: core, CUDA driver, OpenCL,
/// CUDA runtime, domains, synchronisation.
constexpr std::array<unsigned, kModules> kSizes{0, 16, 9, 15, 7, 16, 7};
constexpr unsigned kMost = 16, kPushA = 9, kPop = 11;
constexpr std::uint32_t kCallbacks = 1, kVersionInfo = 3, kVersion = 3;

struct Tables {
  std::array<std::array<Function, kMost>, kModules> functions{};
  /// Addresses of the functions; a null after them ends a table for readers without a count.
  std::array<std::array<Function*, kMost + 1>, kModules> places{};
};
Tables& tables() {
  static Tables all;
  return all;
}

int module_table(int module, Function*** table, unsigned* size) {
  if (module <= 0 || module >= kModules) return 0;
  const auto m = static_cast<std::size_t>(module);
  if (table) *table = tables().places[m].data();
  if (size) *size = kSizes[m];
  return 1;
}

struct Callbacks {
  std::size_t bytes = sizeof(Callbacks);
  int (*module_table)(int module, Function*** table, unsigned* size) = &tegula::module_table;
};

struct VersionInfo {
  std::size_t bytes = sizeof(VersionInfo);
  std::uint32_t version = kVersion, reserved = 0;
  void (*set_injection_version)(std::uint32_t version) = [](std::uint32_t) {};
};

const void* export_table(std::uint32_t which) {
  static constexpr Callbacks kCallbackTable;
  static constexpr VersionInfo kInfo;
  if (which == kCallbacks) return &kCallbackTable;
  return which == kVersionInfo ? &kInfo : nullptr;
}

/// Receiver of ranges: functions that the profiler's library has filled in.
struct NvtxSink {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
};

NvtxSink injected(const std::string& path) {
  const runtime::SharedLibrary library = runtime::SharedLibrary::open({path});
  using Initialize = int (*)(const void* (*)(std::uint32_t));
  const auto initialize =
      library ? reinterpret_cast<Initialize>(library.symbol("InitializeInjectionNvtx2")) : nullptr;
  if (!initialize) return {};
  Tables& all = tables();
  for (std::size_t m = 1; m < kModules; ++m)
    for (std::size_t f = 1; f < kSizes[m]; ++f) all.places[m][f] = &all.functions[m][f];
  if (initialize(&export_table) == 0) return {};
  return {reinterpret_cast<int (*)(const char*)>(all.functions[kCore][kPushA]),
          reinterpret_cast<int (*)()>(all.functions[kCore][kPop])};
}

/// Returns the receiver of ranges, or null without a profiler.
const NvtxSink* nvtx_sink() {
  static const NvtxSink* const sink = []() -> const NvtxSink* {
    if (!env().nvtx || env().nvtx_injection.empty()) return nullptr;
    static const NvtxSink found = injected(env().nvtx_injection.string());
    return found.push && found.pop ? &found : nullptr;
  }();
  return sink;
}

}  // namespace

ProfilerRange::ProfilerRange(const char* name) : is_open_(is_heard()) {
  if (is_open_) [[unlikely]]
    nvtx_sink()->push(name);
}
ProfilerRange::~ProfilerRange() {
  if (is_open_) [[unlikely]]
    nvtx_sink()->pop();
}
bool ProfilerRange::is_heard() { return nvtx_sink() != nullptr; }

}  // namespace tegula
