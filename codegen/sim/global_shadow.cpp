// Race check of global memory: happens-before by vector clocks.
#include "codegen/sim/global_shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace tegula::sim {

GlobalShadow::GlobalShadow(std::span<const WatchedRange> ranges) : nodes_(1) {
  for (const WatchedRange& watched : ranges) {
    Range r;
    static_cast<WatchedRange&>(r) = watched;
    const std::size_t count = (r.end - r.begin + r.granule - 1) / r.granule;
    const std::size_t bytes = std::max<std::size_t>(1, count) * sizeof(Granule);
    void* zeros = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) throw std::bad_alloc();
    r.granules = {static_cast<Granule*>(zeros), UnmapGranules{bytes}};
    lowest_ = std::min(lowest_, r.begin);
    highest_ = std::max(highest_, r.end);
    ranges_.push_back(std::move(r));
  }
}

void UnmapGranules::operator()(GlobalGranule* p) const { munmap(p, bytes); }

const GlobalShadow::Range* GlobalShadow::find(std::uint64_t address) const {
  for (const Range& r : ranges_)
    if (address >= r.begin && address < r.end) return &r;
  return nullptr;
}

void GlobalShadow::access(std::uint64_t address, std::uint64_t bytes, GlobalUse use,
                          const GlobalAccess& by, const OnConflict& on_conflict) {
  const Range* r = find(address);
  if (!r) return;
  const std::uint64_t end = std::min(address + bytes, r->end);
  for (std::uint64_t g = (address - r->begin) / r->granule; r->begin + g * r->granule < end; ++g)
    access(r->granules[g], {std::max(address, r->begin + g * r->granule), use, by, on_conflict});
}

void GlobalShadow::access(Granule& g, const Now& now) {
  compare(g.write, GlobalUse::Write, now);
  if (now.use != GlobalUse::Read) compare_all(g.reads, GlobalUse::Read, now);
  if (now.use != GlobalUse::Atomic) compare_all(g.atomics, GlobalUse::Atomic, now);
  if (now.use == GlobalUse::Write)
    note_write(g, now.by.record, now);
  else
    note(now.use == GlobalUse::Read ? g.reads : g.atomics, now.by.record);
}

void GlobalShadow::compare_all(std::uint32_t first, GlobalUse earlier_use, const Now& now) const {
  for (std::uint32_t n = first; n != 0; n = nodes_[n].next)
    compare(nodes_[n].record, earlier_use, now);
}

namespace {

/// Returns true if the earlier access, by an agent of the same cluster, is not known to be
/// complete. Replicas of a tile and equal elements of one scatter are stored by one op and do not
/// race.
bool races_at_home(const GlobalRecord& earlier, GlobalUse earlier_use, const GlobalRecord& later,
                   GlobalUse later_use, const GlobalAccess& by) {
  if (earlier_use == GlobalUse::Write && later_use == GlobalUse::Write && earlier.op == later.op &&
      earlier.turn == later.turn)
    return false;
  if (!by.agents.of_one_warp(earlier.agent, later.agent))
    return !by.known->generic.covers(earlier.agent, earlier.tick);
  const bool same_lane = earlier.lane == later.lane && later.lane != kManyLanes;
  return !same_lane && earlier.warp_sync == later.warp_sync;
}

/// Returns true if TMA reads a thread's change without a proxy fence in between.
bool lacks_proxy_fence(const GlobalRecord& earlier, GlobalUse earlier_use, const GlobalAccess& by) {
  return earlier_use != GlobalUse::Read && by.agents.kind(by.record.agent) == AgentKind::Tma &&
         by.agents.kind(earlier.agent) == AgentKind::Generic &&
         !by.known->proxied_global.covers(earlier.agent, earlier.tick);
}

}  // namespace

void GlobalShadow::compare(const GlobalRecord& earlier, GlobalUse earlier_use,
                           const Now& now) const {
  if (earlier.tick == 0) return;
  const GlobalRecord& later = now.by.record;
  const auto conflict = [&](GlobalConflictKind kind) {
    now.on_conflict({kind, earlier, earlier_use, later, now.use, now.address});
  };
  if (earlier.home == later.home) {
    const bool is_bulk = now.by.agents.kind(earlier.agent) == AgentKind::BulkWrite;
    if (!races_at_home(earlier, earlier_use, later, now.use, now.by)) {
      if (lacks_proxy_fence(earlier, earlier_use, now.by))
        conflict(GlobalConflictKind::NoProxyFence);
      return;
    }
    if (is_bulk) return conflict(GlobalConflictKind::BulkUnfinished);
    const bool same_cta = now.by.agents.rank(earlier.agent) == now.by.agents.rank(later.agent);
    return conflict(same_cta ? GlobalConflictKind::InProgram : GlobalConflictKind::BetweenCtas);
  }
  const ForeignClock* known = now.by.known->foreign.find(earlier.home);
  const auto covers = [&](const std::shared_ptr<const Clock>& clock) {
    return known && clock && clock->covers(earlier.agent, earlier.tick);
  };
  if (!known) return conflict(GlobalConflictKind::BetweenCtas);
  if (covers(known->seen)) return;
  if (covers(known->narrow)) return conflict(GlobalConflictKind::NarrowScope);
  conflict(known->seen && covers(known->present) ? GlobalConflictKind::EarlyRelease
                                                 : GlobalConflictKind::BetweenCtas);
}

void GlobalShadow::note_write(Granule& g, GlobalRecord record, const Now& now) {
  const GlobalRecord& before = g.write;
  const Agents& agents = now.by.agents;
  if (before.tick == record.tick && before.home == record.home &&
      before.warp_sync == record.warp_sync && agents.of_one_warp(before.agent, record.agent) &&
      before.lane != record.lane) {
    record.lane = kManyLanes;
    record.agent = agents.of_many(record.agent);
  }
  if (before.released) released_.erase(now.address);
  record.released = false;
  g.write = record;
  forget(g.reads);
  forget(g.atomics);
}

/// Keeps one record per agent, of a limited number of agents: a later access that is unordered with
/// more agents is also unordered with one of these.
void GlobalShadow::note(std::uint32_t& first, const GlobalRecord& record) {
  constexpr int kMost = 16;
  int count = 0;
  for (std::uint32_t n = first; n != 0; n = nodes_[n].next) {
    GlobalRecord& known = nodes_[n].record;
    const bool same_agent = known.agent == record.agent && known.home == record.home;
    if (!same_agent && ++count < kMost) continue;
    const bool same_burst =
        same_agent && known.tick == record.tick && known.warp_sync == record.warp_sync;
    const std::uint8_t lane = same_burst && known.lane != record.lane ? kManyLanes : record.lane;
    known = record;
    known.lane = lane;
    return;
  }
  std::uint32_t n = free_;
  if (n == 0) {
    n = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_ = nodes_[n].next;
  }
  nodes_[n] = {record, first};
  first = n;
}

void GlobalShadow::forget(std::uint32_t& first) {
  while (first != 0) {
    const std::uint32_t next = nodes_[first].next;
    nodes_[first].next = free_;
    free_ = first;
    first = next;
  }
}

void GlobalShadow::release(std::uint64_t address, const Foreign& what) {
  const Range* r = find(address);
  if (!r) return;
  r->granules[(address - r->begin) / r->granule].write.released = true;
  released_[address].join(what);
}

const Foreign* GlobalShadow::released(std::uint64_t address) const {
  const auto it = released_.find(address);
  return it == released_.end() ? nullptr : &it->second;
}

const GlobalRecord* GlobalShadow::last_change(std::uint64_t address) {
  const Range* r = find(address);
  if (!r) return nullptr;
  const Granule& g = r->granules[(address - r->begin) / r->granule];
  if (g.atomics != 0) return &nodes_[g.atomics].record;
  return g.write.tick != 0 ? &g.write : nullptr;
}

}  // namespace tegula::sim
