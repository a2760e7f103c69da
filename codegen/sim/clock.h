#pragma once
// Vector clocks: which accesses of which agent are known to be over. Agents are the warps (two
// each) and, for each kind of asynchronous engine, the unit in which its work is waited for (see
// shadow.h).
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tegula::sim {

using Agent = std::uint16_t;
using Tick = std::uint32_t;

class Clock {
 public:
  Tick at(Agent a) const { return a < ticks_.size() ? ticks_[a] : 0; }
  bool covers(Agent a, Tick t) const { return t <= at(a); }

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

/// What a release hands to an acquire.
struct Knowledge {
  Clock seen;     ///< accesses that happened before
  Clock proxied;  ///< the part of them that a proxy fence made visible to TMA and wgmma

  void join(const Knowledge& other) {
    seen.join(other.seen);
    proxied.join(other.proxied);
  }
  void clear() {
    seen.clear();
    proxied.clear();
  }
};

}  // namespace tegula::sim
