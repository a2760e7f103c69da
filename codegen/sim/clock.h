#pragma once
// Vector clocks: which accesses of which agent are known to be over. Agents are the warps (two
// each) and, for each kind of asynchronous engine, the unit in which its work is waited for (see
// shadow.h).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace tegula::sim {

using Agent = std::uint16_t;
using Tick = std::uint32_t;

class Clock {
 public:
  Tick at(Agent a) const { return a < ticks_.size() ? ticks_[a] : 0; }
  bool covers(Agent a, Tick t) const { return t <= at(a); }
  bool covers(const Clock& other) const {
    for (std::size_t i = 0; i < other.ticks_.size(); ++i)
      if (other.ticks_[i] > at(static_cast<Agent>(i))) return false;
    return true;
  }

  void raise(Agent a, Tick t) {
    if (a >= ticks_.size()) ticks_.resize(a + 1u, 0);
    ticks_[a] = std::max(ticks_[a], t);
  }

  void join(const Clock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size(), 0);
    for (std::size_t i = 0; i < other.ticks_.size(); ++i)
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

  void lower(Agent a, Tick t) {
    if (a < ticks_.size()) ticks_[a] = std::min(ticks_[a], t);
  }

  void clear() { ticks_.clear(); }

 private:
  std::vector<Tick> ticks_;
};

/// Knowledge of the agents of another cluster, by atomics that released and acquired.
struct ForeignClock {
  std::uint32_t home = 0;                ///< number of the cluster
  std::shared_ptr<const Clock> seen;     ///< accesses that happened before
  std::shared_ptr<const Clock> present;  ///< clocks of its warps at the latest of the releases
  std::shared_ptr<const Clock>
      narrow;  ///< like `seen`, but at a scope that does not include this cluster

  void join(const ForeignClock& other);
};

/// Clocks of other clusters, in ascending order of their numbers; copied on write.
class Foreign {
 public:
  const ForeignClock* find(std::uint32_t home) const;
  void join(const Foreign& other);
  void join(ForeignClock clock);
  /// All of it at a scope that does not reach other clusters.
  Foreign narrowed() const;
  void clear() { list_.reset(); }

 private:
  std::shared_ptr<const std::vector<ForeignClock>> list_;
};

/// Clocks that a release hands to an acquire.
struct VisibleClocks {
  Clock generic;      ///< accesses that happened before
  Clock async_proxy;  ///< the part of them that a proxy fence made visible to TMA and wgmma
  Foreign foreign;

  void join(const VisibleClocks& other) {
    generic.join(other.generic);
    async_proxy.join(other.async_proxy);
    foreign.join(other.foreign);
  }
  void clear() {
    generic.clear();
    async_proxy.clear();
    foreign.clear();
  }
};

}  // namespace tegula::sim
