#pragma once
// For every four bytes of shared memory, records the last write and the reads since, and compares
// each new access with them. Two accesses of which one writes must be ordered by barriers. An
// access by TMA or wgmma after a generic write also needs a proxy fence in between.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <vector>

#include "codegen/sim/clock.h"
#include "ir/kernel.h"

namespace tegula::sim {

/// Kinds of agents. Generic: loads and stores of a warp. The others are engines, waited for in
/// groups. Bulk: reads of shared memory by TMA stores; BulkWrite: their writes to global memory.
enum class AgentKind : std::uint8_t { Generic, CpAsync, Bulk, BulkWrite, Wgmma, Tma };

/// Numbering of the agents of a CTA, distinct from those of other CTAs of its cluster. A warp has
/// two: lane 0, which usually arrives at mbarriers for the warp, and its other lanes. A TMA load
/// belongs to its mbarrier, which orders it.
struct Agents {
  static constexpr int kAlone = 1 << 16;

  int warps = 0;
  int first = 0;        ///< first number of this CTA
  int stride = kAlone;  ///< distance between CTAs
  int groups() const { return (warps + 3) / 4; }
  Agent lanes(int w) const { return agent(w); }
  Agent lane_0(int w) const { return agent(warps + w); }
  Agent of_lane(int w, int lane) const { return lane == 0 ? lane_0(w) : lanes(w); }
  Agent cp_async(int w) const { return agent(2 * warps + w); }
  Agent bulk(int w) const { return agent(3 * warps + w); }
  Agent bulk_write(int w) const { return agent(4 * warps + w); }
  Agent wgmma(int group) const { return agent(5 * warps + group); }
  Agent mbarrier(int number) const { return agent(5 * warps + groups() + number); }
  int mbarriers() const {
    return stride - 5 * warps - groups();
  }  ///< number of mbarriers that can be numbered
  AgentKind kind(Agent a) const;
  /// Returns the agent that represents several lanes of that agent's warp.
  Agent of_many(Agent a) const { return static_cast<Agent>(rank(a) * stride + number(a)); }
  /// Returns true if both agents are lanes of one warp.
  bool of_one_warp(Agent a, Agent b) const {
    if (a == b) return kind(a) == AgentKind::Generic;
    // The numbers of a warp's two agents differ by the number of warps.
    return std::abs(a - b) == warps && rank(a) == rank(b) && kind(a) == AgentKind::Generic &&
           kind(b) == AgentKind::Generic;
  }
  int rank(Agent a) const { return a / stride; }  ///< rank of its CTA in the cluster
  /// Returns the number of the warp, warpgroup or mbarrier.
  int number(Agent a) const;

 private:
  Agent agent(int n) const { return static_cast<Agent>(first + n); }
};

inline constexpr std::uint8_t kManyLanes = 255;

struct AccessRecord {
  Tick tick = 0;                ///< 0: none
  std::uint32_t warp_sync = 0;  ///< number of lane synchronizations of its warp so far
  std::uint32_t op = 0;         ///< OpId
  Agent agent = 0;
  std::uint8_t lane = 0;
  std::uint8_t bytes = 0;  ///< mask of the four bytes
};

/// An access, with the agent that made it and the agent's clock.
struct Access {
  AccessRecord record;  ///< without bytes
  const VisibleClocks* known = nullptr;
  bool async_proxy = false;
};

enum class ConflictKind : std::uint8_t { Unordered, NoProxyFence, Lanes };

struct Conflict {
  ConflictKind kind;
  AccessRecord earlier;
  bool earlier_writes;
  AccessRecord later;
  bool later_writes;
  std::uint32_t offset;  ///< offset of the first byte that both access
};

class Shadow {
 public:
  using OnConflict = std::function<void(const Conflict&)>;

  Shadow(std::size_t bytes, Agents agents, OnConflict on_conflict)
      : granules_((bytes + 3) / 4),
        nodes_(1),
        agents_(agents),
        on_conflict_(std::move(on_conflict)) {}

  void read(std::uint32_t offset, std::uint32_t bytes, const Access& access);
  void write(std::uint32_t offset, std::uint32_t bytes, const Access& access);

 private:
  struct Granule {
    AccessRecord write;
    std::uint32_t reads = 0;  ///< first node, 0: none
  };
  struct Node {
    AccessRecord record;
    std::uint32_t next = 0;
  };

  void read_granule(std::uint32_t g, std::uint8_t mask, const Access& access);
  void write_granule(std::uint32_t g, std::uint8_t mask, const Access& access);
  void compare(const AccessRecord& earlier, bool earlier_writes, const AccessRecord& later,
               bool later_writes, const Access& access, std::uint32_t g);
  std::uint32_t new_node();

  std::vector<Granule> granules_;
  std::vector<Node> nodes_;
  std::uint32_t free_ = 0;
  Agents agents_;
  OnConflict on_conflict_;
};

}  // namespace tegula::sim
