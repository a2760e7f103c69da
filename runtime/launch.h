#pragma once
// The driver's side of the verb `launch`: everything that does not change between calls is prepared
// once.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/argument_layout.h"
#include "runtime/driver_api.h"
#include "runtime/module.h"

namespace tegula::runtime {

struct DeviceProperties;

using Extent3 = std::array<unsigned, 3>;

struct LaunchShape {
  Extent3 grid{1, 1, 1};  ///< blocks; each launch may replace it
  Extent3 block{1, 1, 1};
  Extent3 cluster{1, 1, 1};
  unsigned shared_bytes = 0;  ///< dynamic
  bool programmatic_launch =
      false;  ///< may overlap the previous kernel; requires griddepcontrol.wait in the kernel
  bool cooperative = false;  ///< all blocks must be resident at once
  int priority = 0;
};

/// A kernel with its launch configuration and argument layout. `launch` takes no lock, allocates
/// nothing and may be called from many threads.
class PreparedLaunch {
 public:
  static constexpr std::size_t kMaxArguments = 128;

  /// Throws DeviceError naming the limiting resource if no launch of this shape can work on the
  /// kernel's GPU, and InternalError for more than kMaxArguments arguments.
  PreparedLaunch(const LoadedKernel& kernel, const LaunchShape& shape,
                 std::span<const ArgumentSlot> slots);

  /// Queues the kernel. `arguments` is the block laid out by the slots; it may be reused at once.
  /// Does nothing for a grid with an extent of 0.
  void launch(cu::Stream stream, const std::byte* arguments, const Extent3& grid) const {
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;
    std::array<void*, kMaxArguments> pointers;
    for (std::size_t i = 0; i < argument_count_; ++i)
      pointers[i] = const_cast<std::byte*>(arguments) + offsets_[i];
    cu::LaunchConfig config = config_;
    config.grid_x = grid[0];
    config.grid_y = grid[1];
    config.grid_z = grid[2];
    config.stream = stream;
    config.attributes = const_cast<cu::LaunchAttribute*>(attributes_.data());
    const cu::Result result = entry_(&config, kernel_.function, pointers.data(), nullptr);
    if (result != cu::kSuccess) [[unlikely]]
      retry_or_throw(result, config, pointers.data());
  }
  void launch(cu::Stream stream, const std::byte* arguments) const {
    launch(stream, arguments, shape_.grid);
  }

  /// Returns the clusters that the GPU runs at one time; 0 if the driver does not report it.
  int max_active_clusters() const;

  const LaunchShape& shape() const { return shape_; }
  const LoadedKernel& kernel() const { return kernel_; }

 private:
  void retry_or_throw(cu::Result result, const cu::LaunchConfig& config, void** pointers) const;

  decltype(Driver::launch_kernel) entry_;
  LoadedKernel kernel_;
  LaunchShape shape_;
  cu::LaunchConfig config_{};
  std::array<cu::LaunchAttribute, 4> attributes_{};
  std::size_t argument_count_ = 0;
  std::array<std::uint32_t, kMaxArguments> offsets_{};
};

/// Returns the reason why this grid cannot be launched, or "".
std::string grid_fault(const Extent3& grid, const Extent3& cluster);

}  // namespace tegula::runtime
