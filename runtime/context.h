#pragma once
// GPUs as the driver lists them: their properties and their primary contexts.
#include <cstddef>
#include <string>

#include "ir/target.h"
#include "runtime/driver_api.h"
#include "tegula/device.h"

namespace tegula::runtime {

/// Facts of one GPU, read once.
struct DeviceProperties {
  int ordinal = 0;
  std::string name;
  std::string uuid;  ///< 32 hex digits, or empty where the driver does not tell
  int compute_major = 0;
  int compute_minor = 0;
  int sm_count = 0;
  int max_threads_per_block = 0;
  int registers_per_sm = 0;
  std::size_t shared_bytes_per_sm = 0;
  std::size_t shared_bytes_per_block = 0;  ///< the most one block may ask for
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  int memory_bus_bits = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  bool has_clusters = false;

  /// 90 for compute capability 9.0.
  int compute() const { return compute_major * 10 + compute_minor; }
};

/// How many GPUs there are; 0 without a driver. Does not throw.
int cuda_device_count() noexcept;

/// Properties of GPU `ordinal`. Throws DeviceError if there is no such GPU.
const DeviceProperties& device_properties(int ordinal);

/// Target of code for a device: the newest target that a GPU runs, and the newest of all
/// on the host's devices. GPUs newer than every target take the sm_80 path through the driver.
ir::Target default_target(Device device);

/// Makes the primary context of a GPU current on this thread and restores the previous one at the
/// end. Costs one driver call where that context is current already.
class ContextScope {
 public:
  explicit ContextScope(int ordinal);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  bool pushed_ = false;
};

/// Returns what `call` does, called again with the primary context of GPU `ordinal` current where
/// this thread has none, or another GPU's: the usual call does not pay for looking.
template <class Call>
cu::Result call_in_context(int ordinal, const Call& call) {
  constexpr auto kInvalidContext = static_cast<cu::Result>(201),
                 kInvalidHandle = static_cast<cu::Result>(400);
  const cu::Result result = call();
  if (result != kInvalidContext && result != kInvalidHandle) [[likely]]
    return result;
  const ContextScope scope(ordinal);
  return call();
}

}  // namespace tegula::runtime
