#pragma once
// Layout of a kernel's arguments in the block that a launch passes to the driver.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tegula::runtime {

/// Maximum size of a kernel's parameters.
inline constexpr std::size_t kMaxBlockBytes = 4096;

/// Position of one kernel argument in the block of arguments.
struct ArgumentSlot {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// Lays out arguments one after another, each at its own alignment, as the kernel's parameters are
/// laid out.
class ArgumentLayout {
 public:
  /// Adds an argument and returns its offset. Tensor maps: 128 bytes, aligned to 64.
  std::uint32_t add(std::uint32_t bytes, std::uint32_t alignment);
  template <class T>
  std::uint32_t add() {
    return add(sizeof(T), alignof(T));
  }
  std::span<const ArgumentSlot> slots() const { return slots_; }
  std::uint32_t total_bytes() const { return total_; }

 private:
  std::vector<ArgumentSlot> slots_;
  std::uint32_t total_ = 0;
};

}  // namespace tegula::runtime
