#include "runtime/workspace.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/graph_memory.h"
#include "runtime/process_singleton.h"
#include "runtime/storage.h"
#include "runtime/stream_state.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

/// Key of a stream's workspace. It contains the driver table, so that memory of a test's driver is
/// never used with the real driver.
using Key = std::tuple<const Driver*, DeviceKind, int, unsigned long long>;

struct Slot {
  std::atomic<const Workspace*> current{nullptr};
  std::mutex growth_mutex;
  std::vector<std::unique_ptr<const Workspace>>
      all;  // includes outgrown ones, which other threads may still read
  std::vector<std::shared_ptr<void>> memory;
};

Key key_of(const Stream& stream, const StreamState& state) {
  const Device device = stream.device();
  if (device.on_host()) return {nullptr, device.kind, device.index, 0};
  return {&driver(), device.kind, device.index, state.id};
}

bool is_enough(const Workspace* w, std::size_t scratch_bytes, std::size_t counters) {
  return w != nullptr && w->scratch_bytes >= scratch_bytes && w->counter_count >= counters;
}

void clear_counters(void* memory, std::size_t bytes, const Stream& stream) {
  if (stream.device().on_host()) {
    std::memset(memory, 0, bytes);
    return;
  }
  const ContextScope scope(stream.device().index);
  check(driver().set_bytes(reinterpret_cast<cu::DevicePtr>(memory), 0, bytes,
                           static_cast<cu::Stream>(stream.handle())),
        "cuMemsetD8Async");
}

const Workspace& grow(Slot& slot, const Stream& stream, std::size_t scratch_bytes,
                      std::size_t counters) {
  const std::lock_guard lock(slot.growth_mutex);
  const Workspace* old = slot.current.load(std::memory_order_acquire);
  if (is_enough(old, scratch_bytes, counters)) return *old;
  std::optional<RelaxedCaptureScope> relaxed;  // another stream may be recording a graph
  if (!stream.device().on_host()) relaxed.emplace();
  constexpr std::size_t kMinBytes = 64 << 10, kMinCounters = 1024;
  auto fresh = std::make_unique<Workspace>(old != nullptr ? *old : Workspace{});
  if (scratch_bytes > fresh->scratch_bytes) {
    fresh->scratch_bytes = std::max({scratch_bytes, 2 * fresh->scratch_bytes, kMinBytes});
    slot.memory.push_back(allocate(fresh->scratch_bytes, stream.device()));
    fresh->scratch = static_cast<std::byte*>(slot.memory.back().get());
  }
  if (counters > fresh->counter_count) {
    fresh->counter_count = std::max({counters, 2 * fresh->counter_count, kMinCounters});
    const std::size_t bytes = fresh->counter_count * sizeof(std::uint32_t);
    slot.memory.push_back(allocate(bytes, stream.device()));
    fresh->counters = static_cast<std::uint32_t*>(slot.memory.back().get());
    clear_counters(fresh->counters, bytes, stream);
  }
  slot.all.push_back(std::move(fresh));
  slot.current.store(slot.all.back().get(), std::memory_order_release);
  return *slot.all.back();
}

Workspace workspace_of(const Stream& stream, const StreamState& state, std::size_t scratch_bytes,
                       std::size_t counters) {
  thread_local Key last_key{nullptr, DeviceKind::cpu, -1, 0};
  thread_local Slot* last_slot = nullptr;
  const Key key = key_of(stream, state);
  if (key != last_key || last_slot == nullptr) {
    last_slot = &process_singleton<Slot>(key);
    last_key = key;
  }
  const Workspace* current = last_slot->current.load(std::memory_order_acquire);
  if (is_enough(current, scratch_bytes, counters)) [[likely]]
    return *current;
  return grow(*last_slot, stream, scratch_bytes, counters);
}

/// Offsets and sizes of counters are multiples of this number, because kernels are compiled for the
/// alignment of the pointers that they are called with.
constexpr std::size_t kAlignedCounters = 4;
constexpr std::size_t kFallbackFrom = kAlignedCounters,
                      kCountersFrom = kFallbackFrom + kFallbackWords;

/// Returns `count` counters of the stream, starting at number `first`. While the stream records a
/// graph, returns counters that the graph owns.
std::uint32_t* counters_from(std::size_t first, const Stream& stream, std::size_t count) {
  const std::size_t whole = (count + kAlignedCounters - 1) / kAlignedCounters * kAlignedCounters;
  const StreamState state = state_of(stream);
  if (state.is_recording) return acquire_graph_counters(stream, whole);
  return workspace_of(stream, state, 0, first + whole).counters + first;
}

}  // namespace

std::uint32_t* acquire_scheduler_counter(const Stream& stream) {
  return counters_from(0, stream, 2);
}
std::uint32_t* acquire_fallback_flags(const Stream& stream) {
  return counters_from(kFallbackFrom, stream, kFallbackWords);
}
std::uint32_t* acquire_counters(const Stream& stream, std::size_t count) {
  return counters_from(kCountersFrom, stream, count);
}

Workspace acquire_workspace(const Stream& stream, std::size_t scratch_bytes, std::size_t counters) {
  const StreamState state = state_of(stream);
  if (!state.is_recording) return workspace_of(stream, state, scratch_bytes, counters);
  return {acquire_graph_memory(stream, scratch_bytes), scratch_bytes,
          counters > 0 ? acquire_counters(stream, counters) : nullptr, counters};
}

}  // namespace tegula::runtime
