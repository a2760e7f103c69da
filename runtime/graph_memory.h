#pragma once
// Scratch memory of graphs. What a stream's launches share is not theirs: a graph may be replayed
// on any stream, beside launches of the one that recorded it.
#include <cstddef>

#include "tegula/stream.h"

namespace tegula::runtime {

/// At least so many bytes, aligned to 256, contents undefined: of the graph that `stream` records
/// and, in it, of this stream's launches, which follow each other and share them. They live as long
/// as the graph and what is instantiated of it; then another graph gets them. Of one graph, two
/// instances, or two clones as child graphs, must not run at once.
std::byte* acquire_graph_memory(const Stream& stream, std::size_t bytes);

}  // namespace tegula::runtime
