#include "runtime/graph_memory.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/kept.h"
#include "runtime/storage.h"

namespace tegula::runtime {
namespace {

struct Block {
  std::shared_ptr<void> memory;
  std::size_t bytes = 0;
};

/// The blocks of one device.
class GraphMemory {
 public:
  static GraphMemory& of(Device device) {
    return kept_for<GraphMemory>(std::pair(&driver(), device.index));
  }

  std::byte* take(const Stream& stream, std::size_t bytes) {
    const Capture capture = capture_of(static_cast<cu::Stream>(stream.handle()));
    const std::lock_guard lock(mutex_);
    take_back();
    Block& mine = current_[{capture.id, stream.handle()}];
    if (mine.bytes < bytes) {
      const Block block = free_or_new(bytes, stream.device());
      auto loan = std::make_unique<Loan>(Loan{this, block});
      keep_for_graph(capture.graph, loan.get(), give_back);
      static_cast<void>(loan.release());  // give_back's
      mine = block;
    }
    return static_cast<std::byte*>(mine.memory.get());
  }

 private:
  struct Loan {
    GraphMemory* owner;
    Block block;
  };
  static constexpr std::size_t kLeastBytes = 64 << 10;

  /// While the driver calls it, another thread may hold the other mutex and wait for the driver.
  static void give_back(void* data) {
    const std::unique_ptr<Loan> loan(static_cast<Loan*>(data));
    const std::lock_guard lock(loan->owner->returning_);
    loan->owner->returned_.push_back(std::move(loan->block));
  }

  void take_back() {
    const std::lock_guard lock(returning_);
    for (Block& b : returned_) {
      std::erase_if(current_, [&](const auto& held) { return held.second.memory == b.memory; });
      free_.push_back(std::move(b));
    }
    returned_.clear();
  }

  /// The smallest that is large enough.
  Block free_or_new(std::size_t bytes, Device device) {
    const auto rank = [&](const Block& b) { return b.bytes < bytes ? SIZE_MAX : b.bytes; };
    const auto best = std::ranges::min_element(free_, {}, rank);
    if (best != free_.end() && best->bytes >= bytes) {
      Block block = std::move(*best);
      free_.erase(best);
      return block;
    }
    const std::size_t size = std::bit_ceil(std::max(bytes, kLeastBytes));
    const RelaxedCapture relaxed;
    return {allocate(size, device), size};
  }

  std::mutex mutex_, returning_;
  std::map<std::pair<unsigned long long, void*>, Block> current_;  ///< by capture and stream
  std::vector<Block> free_, returned_;
};

}  // namespace

std::byte* acquire_graph_memory(const Stream& stream, std::size_t bytes) {
  return GraphMemory::of(stream.device()).take(stream, bytes);
}

}  // namespace tegula::runtime
