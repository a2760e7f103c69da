#pragma once
// Memory without contents: elements that the host has released with `poison` (tegula/poison.h).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tegula::ir {

/// Released elements of `element_bytes` bytes each in [begin, end). All of their bytes are 0xff: an
/// element with another value has been written since.
struct ReleasedMemory {
  std::uintptr_t begin = 0, end = 0;
  std::size_t element_bytes = 1;

  friend bool operator==(const ReleasedMemory&, const ReleasedMemory&) = default;
};

/// Returns the address of the first element in [address, address + bytes) that is released and has
/// not been written since, or nothing. `all` is ascending and disjoint.
std::optional<std::uintptr_t> find_released(std::span<const ReleasedMemory> all,
                                            std::uintptr_t address, std::size_t bytes);

}  // namespace tegula::ir
