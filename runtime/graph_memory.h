#pragma once
// Memory owned by graphs. A graph must not use the memory that the launches of a stream share: it
// may be replayed on any stream, concurrently with launches of the stream that recorded it.
#include <cstddef>
#include <cstdint>

#include "tegula/stream.h"

namespace tegula::runtime {

/// Returns at least `bytes` bytes, aligned to 256, contents undefined. The memory belongs to the
/// graph that `stream` records. The launches of this stream in that graph follow each other and
/// share it. It lives as long as the graph and everything instantiated from it; then other graphs
/// reuse it, or it is freed when the device runs out of memory. Two instances of one graph, or two
/// clones as child graphs, must not run at once.
std::byte* acquire_graph_memory(const Stream& stream, std::size_t bytes);

/// Returns counters for one launch in the graph that `stream` records, with the same lifetime. They
/// are 0, and each launch must leave them 0. Aligned as `count` is.
std::uint32_t* acquire_graph_counters(const Stream& stream, std::size_t count);

}  // namespace tegula::runtime
