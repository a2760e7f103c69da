#include "runtime/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>

#include "runtime/context.h"
#include "runtime/place_of_call.h"
#include "runtime/released_memory.h"
#include "support/errors.h"
#include "tegula/int_math.h"

namespace tegula::runtime {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::uintptr_t, HostAllocation> by_begin;
  std::list<HostAllocation> borrowed;

  /// Returns the allocation whose usable bytes contain the address, or null. Requires the lock.
  const HostAllocation* allocation_of(std::uintptr_t address) const {
    const auto after = by_begin.upper_bound(address);
    if (after == by_begin.begin()) return nullptr;
    const HostAllocation& a = std::prev(after)->second;
    return address - a.begin < a.bytes ? &a : nullptr;
  }
};

Registry& registry() {
  static auto* all = new Registry();  // leaked: tensors may outlive static destructors
  return *all;
}

/// Returns the bytes after the usable ones. The second red zone starts right after the last usable
/// byte, so that an access to one element too many is detected.
std::size_t tail_bytes(std::size_t bytes) {
  return round_up(bytes, kHostAlignment) - bytes + kRedZoneBytes;
}

std::shared_ptr<void> allocate_host(std::size_t bytes, Device device, Loc at) {
  const bool is_countable = bytes <= SIZE_MAX - 4 * kRedZoneBytes;
  void* const memory =
      is_countable ? std::aligned_alloc(kHostAlignment, kRedZoneBytes + bytes + tail_bytes(bytes))
                   : nullptr;
  if (memory == nullptr)
    throw DeviceError(diagnostic(ErrorId::no_memory, at, {}, device.str(), bytes, "host",
                                 "use smaller tensors, or free others"));
  auto* block = static_cast<unsigned char*>(memory);
  unsigned char* first = block + kRedZoneBytes;
  std::memset(block, kRedZoneByte, kRedZoneBytes);
  std::memset(first, kUninitialisedByte, bytes);
  std::memset(first + bytes, kRedZoneByte, tail_bytes(bytes));
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  {
    const std::lock_guard lock(registry().mutex);
    registry().by_begin[begin] = {begin, bytes};
  }
  return std::shared_ptr<void>(first, [begin, bytes](void* usable) {
    forget_released(begin, begin + bytes);
    {
      const std::lock_guard lock(registry().mutex);
      registry().by_begin.erase(begin);
    }
    std::free(static_cast<unsigned char*>(usable) - kRedZoneBytes);
  });
}

std::shared_ptr<void> allocate_device(std::size_t bytes, Device device, Loc at) {
  const int ordinal = device.index;
  const ContextScope scope(ordinal);
  // Not stream-ordered: cuMemFree waits for all work, so memory is safe to drop while any stream
  // still uses it.
  cu::DevicePtr address = 0;
  const cu::Result result = driver().mem_alloc(&address, bytes);
  if (result == cu::kErrorOutOfMemory) {
    std::size_t free = 0;
    std::size_t total = 0;
    driver().mem_info(&free, &total);
    throw DeviceError(
        diagnostic(ErrorId::no_memory, at, {}, device.str(), bytes, "device",
                   fmt::format("{} of {} bytes are free: use smaller tensors, or free others", free,
                               total)),
        result, "CUDA_ERROR_OUT_OF_MEMORY");
  }
  if (result == cu::kErrorStreamCaptureUnsupported || result == cu::kErrorStreamCaptureInvalidated)
    throw DeviceError(
        diagnostic(ErrorId::driver_call, at, {}, "cuMemAlloc",
                   "device memory cannot be allocated while a stream records a CUDA graph",
                   "create the tensor before the capture begins"),
        result, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  check(result, "cuMemAlloc");
  return std::shared_ptr<void>(reinterpret_cast<void*>(address), [ordinal](void* memory) {
    // At exit the driver may already be gone, and the memory with it.
    try {
      if (try_driver() == nullptr) return;
      const ContextScope free_scope(ordinal);
      driver().mem_free(reinterpret_cast<cu::DevicePtr>(memory));
    } catch (const Error&) {
    }
  });
}

}  // namespace

std::shared_ptr<void> allocate(std::size_t bytes, Device device, Loc at) {
  if (bytes == 0) return nullptr;
  const PlaceOfCall here(at);
  return device.on_host() ? allocate_host(bytes, device, at) : allocate_device(bytes, device, at);
}

thread_local bool UnlistedScope::is_unlisted_ = false;

std::shared_ptr<void> list_borrowed(HostAllocation memory, std::shared_ptr<void> owner) {
  if (memory.bytes == 0 || UnlistedScope::is_open()) return owner;
  Registry& all = registry();
  std::list<HostAllocation>::iterator at;
  {
    const std::lock_guard lock(all.mutex);
    if (all.allocation_of(memory.begin)) return owner;
    at = all.borrowed.insert(all.borrowed.begin(), memory);
  }
  return std::shared_ptr<void>(owner.get(), [at, owner](void*) {
    Registry& listed = registry();
    const std::lock_guard unlisting(listed.mutex);
    const HostAllocation gone = *at;
    listed.borrowed.erase(at);
    const auto overlaps = [&](const HostAllocation& b) {
      return b.begin < gone.begin + gone.bytes && gone.begin < b.begin + b.bytes;
    };
    if (std::ranges::none_of(listed.borrowed, overlaps))
      forget_released(gone.begin, gone.begin + gone.bytes);
  });
}

std::vector<HostAllocation> host_allocations() {
  const std::lock_guard lock(registry().mutex);
  std::vector<HostAllocation> out(registry().borrowed.begin(), registry().borrowed.end());
  for (const auto& [begin, allocation] : registry().by_begin) out.push_back(allocation);
  return out;
}

std::optional<HostAllocation> host_memory_of(std::uintptr_t address) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (const HostAllocation* a = all.allocation_of(address)) return *a;
  std::optional<HostAllocation> largest;
  for (const HostAllocation& b : all.borrowed)
    if (address - b.begin < b.bytes && (!largest || b.bytes > largest->bytes)) largest = b;
  return largest;
}

std::optional<HostAllocation> find_host_allocation(std::uintptr_t address) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto after = all.by_begin.upper_bound(address + kRedZoneBytes);
  while (after != all.by_begin.begin()) {
    const HostAllocation& candidate = std::prev(after)->second;
    const std::uintptr_t end = candidate.begin + candidate.bytes + tail_bytes(candidate.bytes);
    if (address >= candidate.begin - kRedZoneBytes && address < end) return candidate;
    // The red zone before one allocation may be adjacent to another allocation: check one more.
    if (candidate.begin <= address) break;
    --after;
  }
  return std::nullopt;
}

std::optional<std::int64_t> red_zone_damage(const HostAllocation& allocation) {
  const auto* first = reinterpret_cast<const unsigned char*>(allocation.begin);
  for (std::int64_t i = -static_cast<std::int64_t>(kRedZoneBytes); i < 0; ++i)
    if (first[i] != kRedZoneByte) return i;
  const std::size_t end = allocation.bytes + tail_bytes(allocation.bytes);
  for (std::size_t i = allocation.bytes; i < end; ++i)
    if (first[i] != kRedZoneByte) return static_cast<std::int64_t>(i);
  return std::nullopt;
}

}  // namespace tegula::runtime
