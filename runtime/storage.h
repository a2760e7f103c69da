#pragma once
// Memory of tensors: host memory between red zones, device memory of the primary context, and the
// list of all live host memory, allocated or borrowed, in which the simulator and the interpreter
// look up the memory that contains an address.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tegula/device.h"
#include "tegula/location.h"

namespace tegula::runtime {

inline constexpr std::size_t kRedZoneBytes = 4096;
inline constexpr std::size_t kHostAlignment = 4096;
inline constexpr unsigned char kRedZoneByte = 0xb5;
inline constexpr unsigned char kUninitialisedByte = 0xff;

/// Allocates `bytes` bytes and returns a pointer to the first usable byte, whose deleter frees the
/// memory; null for 0 bytes. Host memory is filled with kUninitialisedByte. Throws DeviceError if
/// memory runs out.
std::shared_ptr<void> allocate(std::size_t bytes, Device device, Loc at = {});

/// Host memory of live tensors: an allocation of `allocate`, or a borrowed range.
struct HostAllocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

/// Lists borrowed host memory until the last copy of the result is destroyed, which keeps `owner`
/// alive as well. Returns `owner` if the memory is in an allocation of `allocate`.
std::shared_ptr<void> list_borrowed(HostAllocation memory, std::shared_ptr<void> owner);

/// During its lifetime list_borrowed() does nothing on this thread: for tensors of one call, whose
/// memory the caller keeps. Calls then neither lock nor allocate.
class UnlistedScope {
 public:
  UnlistedScope() : outer_(std::exchange(is_unlisted_, true)) {}
  ~UnlistedScope() { is_unlisted_ = outer_; }
  UnlistedScope(const UnlistedScope&) = delete;
  UnlistedScope& operator=(const UnlistedScope&) = delete;
  static bool is_open() { return is_unlisted_; }

 private:
  static thread_local bool is_unlisted_;
  bool outer_;
};

/// Returns all live host memory of tensors.
std::vector<HostAllocation> host_allocations();

/// Returns the live host memory that contains the byte at `address`: the allocation, else the
/// largest borrowed range; or nothing.
std::optional<HostAllocation> host_memory_of(std::uintptr_t address);

/// Returns the allocation whose usable bytes or red zones contain `address`, or nothing.
std::optional<HostAllocation> find_host_allocation(std::uintptr_t address);

/// Returns the offset from `begin` of the first damaged red-zone byte (negative: before the
/// memory), or nothing.
std::optional<std::int64_t> red_zone_damage(const HostAllocation& allocation);

}  // namespace tegula::runtime
