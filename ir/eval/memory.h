#pragma once
// Global memory of the interpreted programs: one region per argument, virtual addresses, bounds,
// and the shadow memory of the race detector.
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "ir/eval/eval.h"
#include "ir/eval/race.h"

namespace tegula::ir::interp {

/// Memory to which one argument gives the programs access.
struct MemoryRegion {
  std::string_view name;  ///< name of the parameter
  DType dtype{};          ///< type of its elements
  const TensorArg* tensor = nullptr;
  std::byte* base = nullptr;
  std::byte *begin = nullptr, *end = nullptr;
  std::int64_t address = 0;       ///< virtual address of `base`
  ShadowBlock* shadow = nullptr;  ///< null if no program can write, or races are not tracked
};

class Memory {
 public:
  Memory(const Kernel& kernel, std::span<const EvalArg> args, std::span<const HostMemory> reachable,
         bool track_races);

  /// Returns the region of the kernel's parameter `i`, or null for a scalar.
  const MemoryRegion* region_of_param(std::size_t i) const {
    return regions_[i] ? &*regions_[i] : nullptr;
  }
  /// Returns the host address of `size` bytes and sets `region`, or returns null if they are not
  /// inside one region.
  std::byte* resolve(std::int64_t address, std::size_t size, const MemoryRegion*& region) const;
  /// Returns the region of the argument that an address was computed from, although the address may
  /// be out of its bounds; null if there is none.
  const MemoryRegion* owner(std::int64_t address) const;
  /// Returns a region that contains these bytes, preferably a parameter's, or null.
  const MemoryRegion* holding(const std::byte* begin, const std::byte* end) const;
  /// Returns "x[3, 17]" for the address of a view's element, "p[1027]" relative to a pointer.
  std::string describe(const MemoryRegion& region, std::int64_t address) const;
  std::int64_t address_of(const MemoryRegion& region, const std::byte* address) const {
    return region.address + (address - region.base);
  }

  RaceDetector races;

 private:
  void add_region(std::size_t i, const Param& param, DType dtype, const EvalArg& arg);
  void add_reachable(std::span<const HostMemory> all);
  void make_shadows(const Kernel& kernel);

  std::vector<std::optional<MemoryRegion>> regions_;
  std::deque<std::pair<std::string, MemoryRegion>> reachable_;  ///< region and its name
  std::vector<std::unique_ptr<ShadowBlock>> blocks_;
};

/// Returns the argument index of parameter `i`: its position, or attribute `arg` of a flattened
/// parameter.
std::size_t arg_index(const Param& param, std::size_t i);

}  // namespace tegula::ir::interp
