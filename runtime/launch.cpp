#include "runtime/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/context.h"
#include "support/errors.h"

namespace tegula::runtime {
namespace {

constexpr cu::Result kErrorInvalidContext = static_cast<cu::Result>(201);
constexpr cu::Result kErrorInvalidHandle = static_cast<cu::Result>(400);
/// Codes from hardware stack error to launch failure: faults of kernels, reported by a later call.
constexpr cu::Result kFirstFault = static_cast<cu::Result>(714),
                     kLastFault = static_cast<cu::Result>(719);

std::uint64_t volume(const Extent3& e) { return std::uint64_t{e[0]} * e[1] * e[2]; }

/// Returns the reason why a launch of this shape cannot work on that GPU, or "". Ignores the grid.
std::string launch_fault(const LaunchShape& shape, const KernelResources& resources,
                         const DeviceProperties& gpu) {
  const std::uint64_t threads = volume(shape.block);
  if (threads == 0) return "a block without threads";
  if (threads > static_cast<std::uint64_t>(resources.max_threads))
    return fmt::format("{} threads per block, but {} registers per thread allow {}", threads,
                       resources.registers, resources.max_threads);
  const std::uint64_t shared =
      std::uint64_t{shape.shared_bytes} + static_cast<unsigned>(resources.static_shared_bytes);
  if (shared > gpu.shared_bytes_per_block)
    return fmt::format("{} bytes of shared memory per block, but the GPU has {}", shared,
                       gpu.shared_bytes_per_block);
  const std::uint64_t cluster = volume(shape.cluster);
  if (cluster == 0) return "a cluster without blocks";
  if (cluster > 1 && !gpu.has_clusters)
    return fmt::format("clusters, which compute capability {}.{} does not support",
                       gpu.compute_major, gpu.compute_minor);
  if (cluster > 16) return fmt::format("{} blocks per cluster; the limit is 16", cluster);
  return {};
}

}  // namespace

std::string grid_fault(const Extent3& grid, const Extent3& cluster) {
  constexpr Extent3 kMost{0x7fffffff, 65535, 65535};
  for (std::size_t i = 0; i < 3; ++i) {
    if (grid[i] > kMost[i])
      return fmt::format("{} blocks along {}; the limit is {}", grid[i], "xyz"[i], kMost[i]);
    if (grid[i] % cluster[i] != 0)
      return fmt::format("{} blocks along {} do not divide into clusters of {}", grid[i], "xyz"[i],
                         cluster[i]);
  }
  return {};
}

PreparedLaunch::PreparedLaunch(const LoadedKernel& kernel, const LaunchShape& shape,
                               std::span<const ArgumentSlot> slots)
    : entry_(driver().launch_kernel),
      kernel_(kernel),
      shape_(shape),
      argument_count_(slots.size()) {
  if (slots.size() > kMaxArguments)
    throw InternalError(fmt::format("kernel {} has {} arguments; a launch takes {}", kernel.name,
                                    slots.size(), kMaxArguments));
  const DeviceProperties& gpu = device_properties(kernel.ordinal);
  if (const std::string fault = launch_fault(shape, kernel.resources, gpu); !fault.empty())
    throw DeviceError(
        diagnostic(ErrorId::launch_limit, {}, {}, kernel.name, kernel.ordinal, gpu.name, fault),
        cu::kErrorLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
  for (std::size_t i = 0; i < slots.size(); ++i) offsets_[i] = slots[i].offset;
  config_.block_x = shape.block[0];
  config_.block_y = shape.block[1];
  config_.block_z = shape.block[2];
  config_.shared_bytes = shape.shared_bytes;
  const auto add = [this](cu::LaunchAttributeId id) -> cu::LaunchAttributeValue& {
    cu::LaunchAttribute& attribute = attributes_[config_.attribute_count++];
    attribute.id = id;
    return attribute.value;
  };
  if (volume(shape.cluster) > 1)
    add(cu::kLaunchClusterDimension).cluster = {shape.cluster[0], shape.cluster[1],
                                                shape.cluster[2]};
  if (shape.programmatic_launch)
    add(cu::kLaunchProgrammaticStreamSerialization).programmatic_stream_serialization = 1;
  if (shape.cooperative) add(cu::kLaunchCooperative).cooperative = 1;
  if (shape.priority != 0) add(cu::kLaunchPriority).priority = shape.priority;
}

int PreparedLaunch::max_active_clusters() const {
  const auto ask = driver().max_active_clusters;
  if (!ask) return 0;
  const ContextScope scope(kernel_.ordinal);
  cu::LaunchConfig config = config_;
  config.grid_x = shape_.cluster[0];
  config.grid_y = config.grid_z = 1;
  config.attributes = const_cast<cu::LaunchAttribute*>(attributes_.data());
  int clusters = 0;
  return ask(&clusters, kernel_.function, &config) == cu::kSuccess ? clusters : 0;
}

void PreparedLaunch::retry_or_throw(cu::Result result, const cu::LaunchConfig& config,
                                    void** pointers) const {
  if (result == kErrorInvalidContext || result == kErrorInvalidHandle) {
    // This thread has no context, or that of another GPU: the launch path does not check that
    // first.
    const ContextScope scope(kernel_.ordinal);
    result = entry_(&config, kernel_.function, pointers, nullptr);
    if (result == cu::kSuccess) return;
  }
  const bool is_earlier =
      result == cu::kErrorIllegalAddress || (result >= kFirstFault && result <= kLastFault);
  const Extent3 grid{config.grid_x, config.grid_y, config.grid_z};
  const std::string fault = grid_fault(grid, shape_.cluster);
  throw_driver_error(result, "cuLaunchKernelEx",
                     fmt::format("; kernel {} on cuda:{}, grid {}, block {}, cluster {}, {} bytes "
                                 "of dynamic shared memory{}{}{}",
                                 kernel_.name, kernel_.ordinal, grid, shape_.block, shape_.cluster,
                                 shape_.shared_bytes, fault.empty() ? "" : ": ", fault,
                                 is_earlier ? ": a kernel that was queued before has failed" : ""));
}

}  // namespace tegula::runtime
