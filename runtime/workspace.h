#pragma once
// Scratch memory of kernels: split-K partials, tile counters, semaphores. One per device and
// stream, or of the graph that a stream records, so that kernels sharing it run one after another.
#include <cstddef>
#include <cstdint>

#include "tegula/stream.h"

namespace tegula::runtime {

struct Workspace {
  std::byte* scratch = nullptr;  ///< aligned to 256, contents undefined
  std::size_t scratch_bytes = 0;
  std::uint32_t* counters = nullptr;  ///< zero before each kernel: whoever counts last resets
  std::size_t counter_count = 0;
};

/// The workspace of a stream, at least this large. Without growth it takes no lock; growth
/// allocates, and memory outgrown is kept, because work that is queued may use it. While the stream
/// records a graph it is the graph's (graph_memory.h), and the launch's counters.
Workspace acquire_workspace(const Stream& stream, std::size_t scratch_bytes, std::size_t counters);

/// Counters that are 0 whenever a launch begins that leaves them 0. Launches that follow each other
/// on a stream share them; each launch that a graph records gets some of its own, of the graph's
/// (graph_memory.h), because the graph may be replayed on any stream.
std::uint32_t* acquire_counters(const Stream& stream, std::size_t count);
/// Two counters of the dynamic tile scheduler, or of meetings of all programs; separate from
/// acquire_counters(), which the kernel itself may use.
std::uint32_t* acquire_scheduler_counter(const Stream& stream);
/// Likewise kFallbackWords that a launch leaves to the next one of the same call, which sets them
/// back to 0: no other kernel has them.
inline constexpr std::size_t kFallbackWords = 64;
std::uint32_t* acquire_fallback_flags(const Stream& stream);

}  // namespace tegula::runtime
