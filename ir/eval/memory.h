#pragma once
// Global memory as the interpreted programs see it: one region per argument, virtual addresses,
// bounds, and the shadow that finds races.
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "ir/eval/eval.h"
#include "ir/eval/race.h"

namespace tegula::ir::interp {

/// Memory that one argument gives the programs access to.
struct MemoryRegion {
  std::string_view name;  ///< name of the parameter
  DType dtype{};          ///< type of its elements
  const TensorArg* tensor = nullptr;
  std::byte* base = nullptr;
  std::byte *begin = nullptr, *end = nullptr;
  std::int64_t address = 0;       ///< virtual address of `base`
  ShadowBlock* shadow = nullptr;  ///< null where no program can write, or races are not tracked
};

class Memory {
 public:
  Memory(const Kernel& kernel, std::span<const EvalArg> args, std::span<const HostMemory> reachable,
         bool track_races);

  /// The region of the kernel's parameter `i`; null for a scalar.
  const MemoryRegion* region_of_param(std::size_t i) const {
    return regions_[i] ? &*regions_[i] : nullptr;
  }
  /// The host address of `size` bytes and their region; null where they are not inside one.
  std::byte* resolve(std::int64_t address, std::size_t size, const MemoryRegion*& region) const;
  /// The argument that an address was computed from, though it may lie outside of it; null where it
  /// is none's.
  const MemoryRegion* owner(std::int64_t address) const;
  /// A region that holds these bytes, a parameter's where there is one; or null.
  const MemoryRegion* holding(const std::byte* begin, const std::byte* end) const;
  /// "x[3, 17]" for an address of a view's element, "p[1027]" relative to a pointer.
  std::string describe(const MemoryRegion& region, std::int64_t address) const;
  std::int64_t address_of(const MemoryRegion& region, const std::byte* at) const {
    return region.address + (at - region.base);
  }

  RaceDetector races;

 private:
  void add_region(std::size_t i, const Param& param, DType dtype, const EvalArg& arg);
  void add_reachable(std::span<const HostMemory> all);
  void make_shadows(const Kernel& kernel);

  std::vector<std::optional<MemoryRegion>> regions_;
  std::deque<std::pair<std::string, MemoryRegion>> reachable_;  ///< and its name
  std::vector<std::unique_ptr<ShadowBlock>> blocks_;
};

/// The argument index of parameter `i`: its own position, or attribute `arg` of a flattened one.
std::size_t arg_index(const Param& param, std::size_t i);

}  // namespace tegula::ir::interp
