#pragma once
// Vector clocks: which accesses of which agent are known to be complete. Agents are the warps (two
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

/// Knowledge about the agents of another cluster, acquired through release-acquire atomics.
struct ForeignClock {
  std::uint32_t home = 0;                ///< number of the other cluster
  std::shared_ptr<const Clock> seen;     ///< accesses that happened before
  std::shared_ptr<const Clock> present;  ///< clocks of its warps at the latest of these releases
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
  /// Returns the same knowledge at a scope that does not include other clusters.
  Foreign narrowed() const;
  void clear() { list_.reset(); }

 private:
  std::shared_ptr<const std::vector<ForeignClock>> list_;
};

/// Clocks that a release hands to an acquire.
struct VisibleClocks {
  Clock generic;         ///< accesses that happened before
  Clock async_proxy;     ///< the subset that a proxy fence made visible to TMA and wgmma
  Clock proxied_global;  ///< the subset whose writes to global memory a proxy fence made visible
  Foreign foreign;

  void join(const VisibleClocks& other) {
    generic.join(other.generic);
    async_proxy.join(other.async_proxy);
    proxied_global.join(other.proxied_global);
    foreign.join(other.foreign);
  }
  void clear() {
    generic.clear();
    async_proxy.clear();
    proxied_global.clear();
    foreign.clear();
  }
};

}  // namespace tegula::sim
