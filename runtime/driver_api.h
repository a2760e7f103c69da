#pragma once
// The CUDA driver as one table of function pointers, looked up in libcuda.so.1 at run time.
#include <string>
#include <vector>

#include "runtime/driver_types.h"

namespace tegula::runtime {

/// Returns "12.4" for 12040, as CUDA encodes its versions.
std::string cuda_version_text(int version);

/// A row of driver.def that this driver lacks.
struct MissingEntry {
  const char* symbol;
  const char* feature;  ///< feature that does not work without it
  int since;            ///< first CUDA version that has it, e.g. 12040
};

/// The driver's entry points. No member is ever null: calling one that the driver lacks throws a
/// DeviceError that names the symbol, the first CUDA version with it and the feature that needs it.
struct Driver {
#define TEGULA_DRIVER(member, symbol, since, feature, params) cu::Result(*member) params;
#include "runtime/driver.def"
#undef TEGULA_DRIVER

  int version = 0;                    ///< as cuDriverGetVersion reports it, e.g. 13000
  std::string path;                   ///< the library that was loaded
  std::vector<MissingEntry> missing;  ///< rows that are stubs

  /// Returns a table in which every entry throws; tests replace those that they use.
  static Driver unavailable();
  bool has(const char* symbol) const;
};

/// Returns the driver of this process, loaded and initialised on first use. Throws DeviceError if
/// there is none, if cuInit fails, and in a child process forked after that first use.
const Driver& driver();

/// Returns the driver, or null with the reason in `why`. Does not throw; the result is computed
/// once.
const Driver* try_driver(std::string* why = nullptr);

/// Throws a DeviceError that names `call` and the driver's error (code, name and text), unless
/// `result` is success.
inline void check(cu::Result result, const char* call);
/// Throws that DeviceError for a `result` known to be a failure; appends `context` to the message.
[[noreturn]] void throw_driver_error(cu::Result result, const char* call,
                                     const std::string& context = {});

/// Makes `driver()` return `replacement` on every thread during its lifetime (tests only).
class ScopedDriver {
 public:
  explicit ScopedDriver(const Driver& replacement);
  ~ScopedDriver();
  ScopedDriver(const ScopedDriver&) = delete;
  ScopedDriver& operator=(const ScopedDriver&) = delete;

 private:
  const Driver* previous_;
};

/// Returns the error text of loading the driver from `library`, or "" if that succeeds (tests
/// only).
std::string probe_driver(const std::string& library);

inline void check(cu::Result result, const char* call) {
  if (result != cu::kSuccess) [[unlikely]]
    throw_driver_error(result, call);
}

}  // namespace tegula::runtime
