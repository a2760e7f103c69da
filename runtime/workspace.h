#pragma once
// Scratch memory of kernels: split-K partials, tile counters, semaphores. There is one workspace
// per device and stream, or per graph that a stream records, so that the kernels that share it run
// one after another.
#include <cstddef>
#include <cstdint>

#include "tegula/stream.h"

namespace tegula::runtime {

struct Workspace {
  std::byte* scratch = nullptr;  ///< aligned to 256, contents undefined
  std::size_t scratch_bytes = 0;
  std::uint32_t* counters = nullptr;  ///< zero before each kernel: the last CTA resets them
  std::size_t counter_count = 0;
};

/// Returns the workspace of a stream, with at least these sizes. Takes no lock unless it grows.
/// Growth allocates and keeps the old memory, because queued work may use it. While the stream
/// records a graph, returns the graph's memory (graph_memory.h) and the launch's counters.
Workspace acquire_workspace(const Stream& stream, std::size_t scratch_bytes, std::size_t counters);

/// Returns counters that are 0 at the beginning of each launch, if each launch leaves them 0.
/// Consecutive launches on a stream share them. Each launch that a graph records gets its own
/// counters from the graph (graph_memory.h), because the graph may be replayed on any stream.
std::uint32_t* acquire_counters(const Stream& stream, std::size_t count);
/// Returns two counters of the dynamic tile scheduler, or of grid barriers; separate from
/// acquire_counters(), which the kernel itself may use.
std::uint32_t* acquire_scheduler_counter(const Stream& stream);
inline constexpr std::size_t kFallbackWords = 64;
/// Returns kFallbackWords words of flags that one launch of a call sets and the next launch of the
/// same call reads and resets to 0. No other kernel uses them.
std::uint32_t* acquire_fallback_flags(const Stream& stream);

}  // namespace tegula::runtime
