#pragma once
// Memory of graphs. What a stream's launches share is not theirs: a graph may be replayed on any
// stream, beside launches of the one that recorded it.
#include <cstddef>
#include <cstdint>

#include "tegula/stream.h"

namespace tegula::runtime {

/// At least so many bytes, aligned to 256, contents undefined: of the graph that `stream` records
/// and, in it, of this stream's launches, which follow each other and share them. They live as long
/// as the graph and what is instantiated of it; then other graphs get them, or, where the device
/// has no room for more, it gets them back. Of one graph, two instances, or two clones as child
/// graphs, must not run at once.
std::byte* acquire_graph_memory(const Stream& stream, std::size_t bytes);

/// Counters of one launch in the graph that `stream` records, which live as long. They are 0, and
/// each launch has to leave them so. Aligned as `count` is.
std::uint32_t* acquire_graph_counters(const Stream& stream, std::size_t count);

}  // namespace tegula::runtime
