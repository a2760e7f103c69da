#pragma once
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "tegula/location.h"

namespace tegula {

enum class DeviceKind : std::uint8_t {
  cpu,   ///< the interpreter of the tile form, which defines the meaning of a kernel
  sim,   ///< the simulator: executes and checks the input of the back ends on the host
  cuda,  ///< a GPU
};

/// The device on which tensors live and kernels run: `cpu`, `sim` or `cuda:N`.
struct Device {
  DeviceKind kind = DeviceKind::cpu;  ///< executor and memory
  int index = 0;                      ///< number of the GPU; 0 for cpu and sim

  /// Parses "cpu", "sim", "cuda" (the same as "cuda:0") or "cuda:N". Throws DeviceError for other
  /// texts. Does not check whether the device is present.
  static Device parse(std::string_view text, Loc at = std::source_location::current());
  static constexpr Device cpu() { return {DeviceKind::cpu, 0}; }
  static constexpr Device sim() { return {DeviceKind::sim, 0}; }
  static constexpr Device cuda(int index = 0) { return {DeviceKind::cuda, index}; }

  /// Returns the device named by TEGULA_DEVICE, else cuda:0 if there is a GPU, else cpu. Decided
  /// once per process.
  static Device best();
  /// Returns the number of GPUs that the driver lists; 0 without a driver.
  static int cuda_count() noexcept;

  /// Returns true if tensors of this device are in host memory.
  constexpr bool on_host() const { return kind != DeviceKind::cuda; }
  /// Returns "cuda:0", "sim" or "cpu".
  std::string str() const;

  friend constexpr bool operator==(const Device&, const Device&) = default;
};

}  // namespace tegula
