#include "runtime/driver_api.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "runtime/shared_library.h"
#include "support/errors.h"
#include "support/generation.h"

namespace tegula::runtime {
namespace {

using GetProcAddress = cu::Result (*)(const char*, void**, int, std::uint64_t, cu::ProcQuery*);

constexpr int kOldestDriver = 12000;  // cuLibraryLoadData and cuTensorMapEncodeTiled

enum class DriverEntryRow : int {
#define TEGULA_DRIVER(member, symbol, since, feature, params) member,
#include "runtime/driver.def"
#undef TEGULA_DRIVER
};

constexpr MissingEntry kEntryRows[] = {
#define TEGULA_DRIVER(member, symbol, since, feature, params) {symbol, feature, since},
#include "runtime/driver.def"
#undef TEGULA_DRIVER
};

/// Replaces an entry that the driver lacks.
template <DriverEntryRow R, class Signature>
struct Missing;
template <DriverEntryRow R, class... Args>
struct Missing<R, cu::Result(Args...)> {
  static cu::Result call(Args...) {
    const MissingEntry& row = kEntryRows[static_cast<int>(R)];
    throw DeviceError(
        diagnostic(ErrorId::device_missing, {}, {},
                   fmt::format("the CUDA driver has no {}, which is needed for {}; it came with "
                               "CUDA {}",
                               row.symbol, row.feature, cuda_version_text(row.since)),
                   "update the NVIDIA driver"),
        cu::kErrorNotFound, "CUDA_ERROR_NOT_FOUND");
  }
};

std::string no_library_text(const SharedLibrary& library) {
  return "the CUDA driver (libcuda.so.1) could not be loaded:\n" + library.failures() +
         "It comes with the NVIDIA driver (Debian: libcuda1; elsewhere the driver package of the "
         "distribution or "
         "NVIDIA's installer). Without it the devices 'cpu' and 'sim' still work, and kernels can "
         "be compiled "
         "to PTX and cubin.";
}

GetProcAddress find_lookup(const SharedLibrary& library) {
  return reinterpret_cast<GetProcAddress>(library.symbol("cuGetProcAddress_v2"));
}

void fill_table(Driver& table, GetProcAddress lookup) {
  const auto find = [&](const MissingEntry& row) -> void* {
    void* address = nullptr;
    cu::ProcQuery status = cu::kProcNotFound;
    const cu::Result result = lookup(row.symbol, &address, row.since, 0, &status);
    if (result == cu::kSuccess && status == cu::kProcFound && address != nullptr) return address;
    table.missing.push_back(row);
    return nullptr;
  };
#define TEGULA_DRIVER(member, symbol, since, feature, params)                     \
  if (void* address = find(kEntryRows[static_cast<int>(DriverEntryRow::member)])) \
    table.member = reinterpret_cast<cu::Result(*) params>(address);
#include "runtime/driver.def"
#undef TEGULA_DRIVER
}

struct LoadedDriver {
  std::unique_ptr<const Driver> table;
  std::string why_not;
  int code = 0;
  std::string name;
};

LoadedDriver load_driver(const std::vector<std::string>& candidates) {
  LoadedDriver loaded;
  const SharedLibrary library = SharedLibrary::open(candidates);
  if (!library) {
    loaded.why_not = no_library_text(library);
    return loaded;
  }
  const GetProcAddress lookup = find_lookup(library);
  if (lookup == nullptr) {
    loaded.why_not = fmt::format(
        "the CUDA driver at {} has no cuGetProcAddress_v2: it is older than CUDA {}, which Tegula "
        "needs; update the "
        "NVIDIA driver (525 or later). The devices 'cpu' and 'sim' still work.",
        library.path(), cuda_version_text(kOldestDriver));
    return loaded;
  }
  auto table = std::make_unique<Driver>(Driver::unavailable());
  table->missing.clear();
  table->path = library.path();
  fill_table(*table, lookup);
  const cu::Result result = table->init(0);
  if (result != cu::kSuccess) {
    const char* name = "";
    table->error_name(result, &name);
    loaded.code = result;
    loaded.name = name;
    loaded.why_not = fmt::format(
        "the CUDA driver at {} did not start: cuInit failed; the devices 'cpu' and 'sim' still "
        "work",
        library.path());
    return loaded;
  }
  table->driver_version(&table->version);
  loaded.table = std::move(table);
  return loaded;
}

std::atomic<const Driver*> g_replacement{nullptr};
std::atomic<bool> g_forked{false};

const LoadedDriver& process_driver() {
  // Never destroyed: static destructors elsewhere may still own device memory.
  static const LoadedDriver* loaded = [] {
    auto* fresh = new LoadedDriver(load_driver({"libcuda.so.1", "libcuda.so"}));
    if (fresh->table) ::pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });
    return fresh;
  }();
  return *loaded;
}

constexpr const char* kForkText =
    "this process was forked after the CUDA driver had started, and the driver does not survive "
    "fork";
constexpr const char* kForkHint =
    "use the GPU in the parent, or start the child with exec or before the first use of a GPU";

}  // namespace

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Driver Driver::unavailable() {
  Driver table{};
#define TEGULA_DRIVER(member, symbol, since, feature, params) \
  table.member = &Missing<DriverEntryRow::member, cu::Result params>::call;
#include "runtime/driver.def"
#undef TEGULA_DRIVER
  table.missing.assign(std::begin(kEntryRows), std::end(kEntryRows));
  return table;
}

bool Driver::has(const char* symbol) const {
  for (const MissingEntry& row : missing)
    if (std::strcmp(row.symbol, symbol) == 0) return false;
  return true;
}

const Driver* try_driver(std::string* why) {
  if (const Driver* replacement = g_replacement.load(std::memory_order_acquire)) return replacement;
  const LoadedDriver& loaded = process_driver();
  if (why != nullptr) *why = g_forked ? kForkText : loaded.why_not;
  return g_forked ? nullptr : loaded.table.get();
}

const Driver& driver() {
  if (const Driver* table = try_driver()) return *table;
  if (g_forked)
    throw DeviceError(diagnostic(ErrorId::device_missing, {}, {}, kForkText, kForkHint),
                      cu::kErrorNotInitialized, "CUDA_ERROR_NOT_INITIALIZED");
  const LoadedDriver& loaded = process_driver();
  throw DeviceError(diagnostic(ErrorId::device_missing, {}, {}, loaded.why_not,
                               "use the device cpu or sim; `tegula doctor` describes this machine"),
                    loaded.code, loaded.name);
}

void throw_driver_error(cu::Result result, const char* call, const std::string& context) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (const Driver* table = try_driver()) {
    if (table->has("cuGetErrorName")) table->error_name(result, &name);
    if (table->has("cuGetErrorString")) table->error_text(result, &text);
  }
  throw DeviceError(
      diagnostic(ErrorId::driver_call, {}, {}, call,
                 fmt::format("{}{}", text ? text : "the driver has no message for it", context),
                 "`tegula doctor` describes this machine; the device sim checks the same "
                 "call without a GPU"),
      result, name != nullptr ? name : "unknown CUDA error");
}

ScopedDriver::ScopedDriver(const Driver& replacement)
    : previous_(g_replacement.exchange(&replacement)) {
  begin_generation();
}
ScopedDriver::~ScopedDriver() {
  g_replacement.store(previous_);
  begin_generation();
}

std::string probe_driver(const std::string& library) { return load_driver({library}).why_not; }

}  // namespace tegula::runtime
