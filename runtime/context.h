#pragma once
// GPUs as listed by the driver: their properties and their primary contexts.
#include <cstddef>
#include <string>

#include "ir/target.h"
#include "runtime/driver_api.h"
#include "tegula/device.h"

namespace tegula::runtime {

/// Properties of one GPU, read once.
struct DeviceProperties {
  int ordinal = 0;
  std::string name;
  std::string uuid;  ///< 32 hex digits, or empty if the driver does not report it
  int compute_major = 0;
  int compute_minor = 0;
  int sm_count = 0;
  int max_threads_per_block = 0;
  int registers_per_sm = 0;
  std::size_t shared_bytes_per_sm = 0;
  std::size_t shared_bytes_per_block = 0;  ///< maximum of one block, with opt-in
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  int memory_bus_bits = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  bool has_clusters = false;

  /// Returns 90 for compute capability 9.0.
  int compute() const { return compute_major * 10 + compute_minor; }
};

/// Returns the number of GPUs; 0 without a driver. Does not throw.
int cuda_device_count() noexcept;
/// Returns the names of the devices of a machine with so many GPUs, for errors.
std::string devices_text(int gpus);

/// Returns the properties of GPU `ordinal`. Throws DeviceError if it does not exist.
const DeviceProperties& device_properties(int ordinal);

/// Returns the target of code for a device: the newest one that the GPU runs, or the newest of all
/// for cpu and sim. sm_90a code runs only on capability 9.0, so newer GPUs run sm_80 code.
ir::Target default_target(Device device);

/// Makes the primary context of a GPU current on this thread and restores the previous one when
/// destroyed. Costs one driver call if that context is current already.
class ContextScope {
 public:
  explicit ContextScope(int ordinal);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  bool pushed_ = false;
};

/// Returns the result of `call`. If it fails because this thread has no context, or another GPU's,
/// repeats it with the primary context of GPU `ordinal` current. Success costs no context check.
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
