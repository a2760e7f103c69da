#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tegula {

enum class DeviceKind : std::uint8_t {
  cpu,   ///< the interpreter of the tile form: the meaning of a kernel
  sim,   ///< the simulator: executes and checks, on the host, the code that back ends get
  cuda,  ///< a GPU
};

/// The device on which tensors live and kernels run: `cpu`, `sim` or `cuda:N`.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< number of the GPU; 0 for cpu and sim

  /// Reads "cpu", "sim", "cuda" (the same as "cuda:0") or "cuda:N". Throws DeviceError on other
  /// texts. Does not ask whether the device is present.
  static Device parse(std::string_view text);
  static constexpr Device cpu() { return {DeviceKind::cpu, 0}; }
  static constexpr Device sim() { return {DeviceKind::sim, 0}; }
  static constexpr Device cuda(int index = 0) { return {DeviceKind::cuda, index}; }

  /// The device named by TEGULA_DEVICE, else cuda:0 where there is a GPU, else cpu. Decided once a
  /// process.
  static Device best();
  /// How many GPUs the driver lists; 0 where there is no driver.
  static int cuda_count() noexcept;

  /// True if tensors of this device lie in host memory.
  constexpr bool on_host() const { return kind != DeviceKind::cuda; }
  /// "cuda:0", "sim", "cpu".
  std::string str() const;

  friend constexpr bool operator==(const Device&, const Device&) = default;
};

}  // namespace tegula
