#pragma once
// The CUDA driver as one table of function pointers, found in libcuda.so.1 at run time.
#include <string>
#include <vector>

#include "runtime/driver_types.h"

namespace tegula::runtime {

/// "12.4" for 12040, as CUDA encodes its versions.
std::string cuda_version_text(int version);

/// One row of driver.def that this driver lacks.
struct MissingEntry {
  const char* symbol;
  const char* feature;  ///< feature that does not work without it
  int since;            ///< CUDA version that brought it, e.g. 12040
};

/// The driver's entry points. No member is ever null: calling one that the driver lacks throws a
/// DeviceError that names the symbol, the version that brings it and what needs it.
struct Driver {
#define TEGULA_DRIVER(member, symbol, since, feature, params) cu::Result(*member) params;
#include "runtime/driver.def"
#undef TEGULA_DRIVER

  int version = 0;                    ///< as cuDriverGetVersion tells, e.g. 13000
  std::string path;                   ///< the library that was loaded
  std::vector<MissingEntry> missing;  ///< rows that are stubs

  /// A table in which every entry throws; tests replace what they use.
  static Driver unavailable();
  bool has(const char* symbol) const;
};

/// The driver of this process, loaded and initialised on first use.
/// Throws DeviceError where there is none, where cuInit fails, and in a child forked after that
/// first use.
const Driver& driver();

/// The driver, or null with the reason in `why`. Does not throw; the answer is computed once.
const Driver* try_driver(std::string* why = nullptr);

/// Throws a DeviceError naming `call`, the driver's code, its name and text, unless `result` is
/// success.
inline void check(cu::Result result, const char* call);
/// The same for a result known to be a failure; `context` is appended to the message.
[[noreturn]] void throw_driver_error(cu::Result result, const char* call,
                                     const std::string& context = {});

/// While alive, `driver()` is `replacement` for every thread (tests only).
class ScopedDriver {
 public:
  explicit ScopedDriver(const Driver& replacement);
  ~ScopedDriver();
  ScopedDriver(const ScopedDriver&) = delete;
  ScopedDriver& operator=(const ScopedDriver&) = delete;

 private:
  const Driver* previous_;
};

/// As if libcuda were not to be found at `library` (tests only): the text of the error it gives, or
/// "".
std::string probe_driver(const std::string& library);

inline void check(cu::Result result, const char* call) {
  if (result != cu::kSuccess) [[unlikely]]
    throw_driver_error(result, call);
}

}  // namespace tegula::runtime
