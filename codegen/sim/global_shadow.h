#pragma once
// For each element of global memory that a kernel writes, records the last write and the reads and
// atomics since, and compares each new access with them. Within a CTA barriers order accesses;
// between CTAs only an atomic that releases and one that acquires.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "codegen/sim/shadow.h"

namespace tegula::sim {

struct GlobalRecord {
  Tick tick = 0;                ///< 0: none
  std::uint32_t home = 0;       ///< number of the cluster
  std::uint32_t op = 0;         ///< OpId
  std::uint32_t warp_sync = 0;  ///< number of lane synchronizations of its warp so far
  std::uint32_t turn = 0;       ///< number of loop iterations that its warp had completed
  Agent agent = 0;
  std::uint8_t lane = 0;
  bool released = false;  ///< an atomic has released here since the last write
};

enum class GlobalUse : std::uint8_t { Read, Write, Atomic };

/// An access, with the agent that made it and the agent's clock.
struct GlobalAccess {
  GlobalRecord record;
  const VisibleClocks* known = nullptr;
  Agents agents;  ///< agents of the CTA
};

/// Why two accesses are not ordered.
enum class GlobalConflictKind : std::uint8_t {
  InProgram,  ///< by threads of one CTA without a barrier between them
  BetweenCtas,
  EarlyRelease,    ///< the acquired release was too early to cover another thread's access
  NarrowScope,     ///< ordered only at a narrower scope
  BulkUnfinished,  ///< the earlier access is a TMA store that may not have written yet
  NoProxyFence,    ///< ordered, but TMA reads a thread's write without a proxy fence
};

struct GlobalConflict {
  GlobalConflictKind kind;
  GlobalRecord earlier;
  GlobalUse earlier_use;
  GlobalRecord later;
  GlobalUse later_use;
  std::uint64_t address;
};

/// Memory that a thread of the launch may write.
struct WatchedRange {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t granule = 4;  ///< bytes per tracked element
};

/// Recorded accesses to an element.
struct GlobalGranule {
  GlobalRecord write;
  std::uint32_t reads = 0, atomics = 0;  ///< first nodes, 0: none
};

struct UnmapGranules {
  std::size_t bytes = 0;
  void operator()(GlobalGranule* p) const;
};

class GlobalShadow {
 public:
  using OnConflict = std::function<void(const GlobalConflict&)>;

  explicit GlobalShadow(std::span<const WatchedRange> ranges);

  bool is_watched(std::uint64_t address) const {
    return address >= lowest_ && address < highest_ && find(address) != nullptr;
  }
  /// Hold it during the calls below; one op at a time.
  std::mutex& mutex() { return mutex_; }
  void access(std::uint64_t address, std::uint64_t bytes, GlobalUse use, const GlobalAccess& by,
              const OnConflict& on_conflict);
  /// Adds the clocks that an atomic releases at this address to those released before.
  void release(std::uint64_t address, const Foreign& what);
  /// Returns null if there was no release since the last store to the address.
  const Foreign* released(std::uint64_t address) const;
  /// Returns the access that last changed the element, or null.
  const GlobalRecord* last_change(std::uint64_t address);

 private:
  using Granule = GlobalGranule;
  /// Zero pages; untouched ones cost nothing.
  struct Range : WatchedRange {
    std::unique_ptr<Granule[], UnmapGranules> granules;
  };
  struct Node {
    GlobalRecord record;
    std::uint32_t next = 0;
  };
  struct Now {
    std::uint64_t address;
    GlobalUse use;
    const GlobalAccess& by;
    const OnConflict& on_conflict;
  };

  const Range* find(std::uint64_t address) const;
  void access(Granule& g, const Now& now);
  void compare(const GlobalRecord& earlier, GlobalUse earlier_use, const Now& now) const;
  void compare_all(std::uint32_t first, GlobalUse earlier_use, const Now& now) const;
  void note_write(Granule& g, GlobalRecord record, const Now& now);
  void note(std::uint32_t& first, const GlobalRecord& record);
  void forget(std::uint32_t& first);

  std::vector<Range> ranges_;
  std::uint64_t lowest_ = ~std::uint64_t{0}, highest_ = 0;
  std::vector<Node> nodes_;
  std::uint32_t free_ = 0;
  std::unordered_map<std::uint64_t, Foreign> released_;
  std::mutex mutex_;
};

}  // namespace tegula::sim
