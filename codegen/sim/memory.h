#pragma once
// Shared memory of a CTA (bytes, their validity and accesses) and global memory (host memory,
// checked).
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "codegen/sim/global_shadow.h"
#include "codegen/sim/shadow.h"
#include "codegen/sim/simulator.h"
#include "codegen/sim/unstored.h"

namespace tegula::sim {

class SharedMemory {
 public:
  /// Start of dynamic shared memory in a CTA's window; the hardware reserves the first 1024 bytes.
  static constexpr std::uint32_t kBase = 1024;
  /// In a cluster a CTA's own addresses contain its rank, as on the H200, from this bit on.
  /// Addresses of map_shared use lower bits, so the two kinds are distinct.
  static constexpr int kOwnRankShift = 28;

  explicit SharedMemory(std::size_t bytes, int rank = 0)
      : window_(static_cast<std::uint32_t>(rank) << kOwnRankShift),
        bytes_(bytes),
        valid_(bytes, 0) {}

  /// First address of the window; all of its addresses share the upper bits.
  std::uint32_t window() const { return window_; }
  std::uint32_t base() const { return window_ + kBase; }

  bool contains(std::uint32_t address, std::uint32_t bytes) const {
    return address >= base() && std::uint64_t{address} - base() + bytes <= bytes_.size();
  }
  std::size_t size() const { return bytes_.size(); }
  std::uint8_t* at(std::uint32_t address) { return bytes_.data() + (address - base()); }
  /// 1 for each byte that holds a value.
  std::uint8_t* valid(std::uint32_t address) { return valid_.data() + (address - base()); }
  bool all_valid(std::uint32_t address, std::uint32_t bytes) const {
    const std::uint8_t* v = valid_.data() + (address - base());
    for (std::uint32_t i = 0; i < bytes; ++i)
      if (!v[i]) return false;
    return true;
  }

 private:
  std::uint32_t window_;
  std::vector<std::uint8_t> bytes_, valid_;
};

/// Shared by all CTAs of a launch and by the host threads that run them.
class GlobalMemory {
 public:
  GlobalMemory(const SimOptions& options, std::span<const WatchedRange> watched);

  bool contains(std::uint64_t address, std::uint64_t bytes) const;
  GlobalShadow& shadow() { return shadow_; }
  Unstored& unstored() { return unstored_; }
  std::mutex& atomics() { return atomics_; }

  /// Number of changes so far, by any CTA.
  std::uint64_t changes() const { return changes_; }
  void has_changed() { ++changes_; }
  /// "y[3, 17]" if the argument is known, else "global address 0x...".
  std::string describe(std::uint64_t address) const;

 private:
  const std::vector<GlobalRange>& arguments_;
  std::atomic<std::uint64_t> changes_{0};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
  GlobalShadow shadow_;
  Unstored unstored_;
  std::mutex atomics_;
};

/// Passes over the 32 banks that a warp-wide shared access needs; 8- and 16-byte accesses are split
/// into half and quarter warps.
struct Wavefronts {
  int taken = 0, ideal = 0;
};
Wavefronts wavefronts(std::span<const std::uint32_t> addresses, int bytes);

}  // namespace tegula::sim
