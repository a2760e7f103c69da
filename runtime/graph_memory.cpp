#include "runtime/graph_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/process_singleton.h"
#include "runtime/storage.h"
#include "tegula/error.h"
#include "tegula/int_math.h"

namespace tegula::runtime {
namespace {

struct Block {
  std::shared_ptr<void> memory;
  std::size_t bytes = 0;
};

/// Rounds a size up to one of a few block sizes, so that later graphs can reuse the blocks.
std::size_t block_bytes(std::size_t bytes) {
  constexpr std::size_t kLeast = 64 << 10, kCoarse = 2 << 20;
  return bytes <= kCoarse ? std::bit_ceil(std::max(bytes, kLeast)) : round_up(bytes, kCoarse);
}

/// Sets the block to 0. Uses a separate stream, because work on the recording stream would become
/// part of the graph.
void clear_block(const Block& block, Device device) {
  const Stream stream = Stream::create(device);
  check(driver().set_bytes(reinterpret_cast<cu::DevicePtr>(block.memory.get()), 0, block.bytes,
                           static_cast<cu::Stream>(stream.handle())),
        "cuMemsetD8Async");
  stream.synchronize();
}

/// Blocks of one device that graphs use, or that destroyed graphs have released.
class BlockPool {
 public:
  /// `is_cleared` means that blocks are 0 when a graph receives them, and that graphs leave them 0.
  explicit BlockPool(bool is_cleared) : is_cleared_(is_cleared) {}

  /// Returns a block that is owned by `graph`.
  Block allocate_for_graph(cu::Graph graph, std::size_t bytes, Device device) {
    const Block block = free_or_new(block_bytes(bytes), device);
    keep_for_graph(graph, new GraphBlock{this, block}, give_back);
    return block;
  }

  /// Moves the blocks of graphs destroyed since the last call to the free list and returns their
  /// addresses.
  std::vector<void*> reclaim() {
    std::vector<void*> gone;
    const std::lock_guard lock(returning_);
    for (Block& b : returned_) {
      gone.push_back(b.memory.get());
      free_.push_back(std::move(b));
    }
    returned_.clear();
    return gone;
  }

 private:
  struct GraphBlock {
    BlockPool* owner;
    Block block;
  };

  /// Called by the driver when a graph is destroyed. This cannot deadlock: a thread never waits for
  /// the driver while it holds `returning_`.
  static void give_back(void* data) {
    const std::unique_ptr<GraphBlock> loan(static_cast<GraphBlock*>(data));
    const std::lock_guard lock(loan->owner->returning_);
    loan->owner->returned_.push_back(std::move(loan->block));
  }

  /// Returns the smallest sufficient free block, unless most of it would be wasted.
  Block free_or_new(std::size_t bytes, Device device) {
    constexpr std::size_t kMaxTooLarge = 4;
    const auto rank = [&](const Block& b) { return b.bytes < bytes ? SIZE_MAX : b.bytes; };
    const auto best = std::ranges::min_element(free_, {}, rank);
    if (best != free_.end() && best->bytes >= bytes && best->bytes / kMaxTooLarge <= bytes) {
      Block block = std::move(*best);
      free_.erase(best);
      return block;
    }
    Block block{allocate_or_free(bytes, device), bytes};
    if (is_cleared_) clear_block(block, device);
    return block;
  }

  std::shared_ptr<void> allocate_or_free(std::size_t bytes, Device device) {
    try {
      return allocate(bytes, device);
    } catch (const DeviceError& error) {
      if (error.code() != cu::kErrorOutOfMemory || free_.empty()) throw;
      free_.clear();
      return allocate(bytes, device);
    }
  }

  bool is_cleared_;
  std::vector<Block> free_;
  std::mutex returning_;
  std::vector<Block> returned_;
};

/// Memory of the graphs of one device.
class GraphMemory {
 public:
  static GraphMemory& of(Device device) {
    return process_singleton<GraphMemory>(std::pair(&driver(), device.index));
  }

  std::byte* scratch(const Stream& stream, std::size_t bytes) {
    const ContextScope context(stream.device().index);
    const RelaxedCaptureScope relaxed;
    const Capture capture = capture_of(static_cast<cu::Stream>(stream.handle()));
    const Recorder recorder{capture.id, stream.handle(), thread_of(stream)};
    const std::lock_guard lock(mutex_);
    forget(scratch_, scratch_blocks_.reclaim());
    const auto found = scratch_.find(recorder);
    if (found != scratch_.end() && found->second.bytes >= bytes) return start(found->second);
    const Block block = scratch_blocks_.allocate_for_graph(capture.graph, bytes, stream.device());
    scratch_.insert_or_assign(recorder, block);
    return start(block);
  }

  std::uint32_t* counters(const Stream& stream, std::size_t count) {
    const ContextScope context(stream.device().index);
    const RelaxedCaptureScope relaxed;
    const Capture capture = capture_of(static_cast<cu::Stream>(stream.handle()));
    const std::size_t bytes = count * sizeof(std::uint32_t);
    const std::lock_guard lock(mutex_);
    forget(supplies_, counter_blocks_.reclaim());
    const auto found = supplies_.find(capture.id);
    if (found == supplies_.end() || found->second.bytes - found->second.used < bytes)
      supplies_.insert_or_assign(
          capture.id,
          CaptureArena{counter_blocks_.allocate_for_graph(capture.graph, bytes, stream.device()),
                       0});
    CaptureArena& supply = supplies_.at(capture.id);
    const std::size_t at = std::exchange(supply.used, supply.used + bytes);
    return reinterpret_cast<std::uint32_t*>(start(supply) + at);
  }

 private:
  /// A capture and one of its streams: work recorded by different streams may run concurrently. The
  /// key uses handles, because identifiers (cuStreamGetId) are not available while a stream
  /// records.
  using Recorder = std::tuple<unsigned long long, void*, std::uint64_t>;

  /// Returns a number of the calling thread for the per-thread default stream, whose handle all
  /// threads share; else 0.
  static std::uint64_t thread_of(const Stream& stream) {
    static std::atomic<std::uint64_t> threads = 0;
    thread_local const std::uint64_t mine = ++threads;
    return stream.handle() == cu::kStreamPerThread ? mine : 0;
  }

  /// A block whose first `used` bytes have been given to launches.
  struct CaptureArena : Block {
    std::size_t used = 0;
  };

  static std::byte* start(const Block& b) { return static_cast<std::byte*>(b.memory.get()); }

  /// Removes the memory of destroyed graphs, `gone`, from a map.
  static void forget(auto& held, const std::vector<void*>& gone) {
    for (const void* memory : gone)
      std::erase_if(held, [&](const auto& h) { return h.second.memory.get() == memory; });
  }

  std::mutex mutex_;
  BlockPool scratch_blocks_{false}, counter_blocks_{true};
  std::map<Recorder, Block> scratch_;
  std::map<unsigned long long, CaptureArena> supplies_;  ///< by capture
};

}  // namespace

std::byte* acquire_graph_memory(const Stream& stream, std::size_t bytes) {
  return GraphMemory::of(stream.device()).scratch(stream, bytes);
}

std::uint32_t* acquire_graph_counters(const Stream& stream, std::size_t count) {
  return GraphMemory::of(stream.device()).counters(stream, count);
}

}  // namespace tegula::runtime
