// Race check of shared memory: happens-before by vector clocks, with one record per writer and per
// reader for every four bytes.
#include "codegen/sim/shadow.h"

#include <bit>

namespace tegula::sim {

AgentKind Agents::kind(Agent any) const {
  const int a = any % stride;
  if (a < 2 * warps) return AgentKind::Generic;
  if (a < 3 * warps) return AgentKind::CpAsync;
  if (a < 4 * warps) return AgentKind::Bulk;
  if (a < 5 * warps) return AgentKind::BulkWrite;
  return a < 5 * warps + groups() ? AgentKind::Wgmma : AgentKind::Tma;
}

int Agents::number(Agent any) const {
  const int a = any % stride;
  const int past_warps = a - 5 * warps;
  if (past_warps < 0) return a % warps;
  return past_warps < groups() ? past_warps : past_warps - groups();
}

namespace {

std::uint8_t merged_lane(const AccessRecord& a, std::uint8_t lane) {
  return a.lane == lane ? lane : kManyLanes;
}

bool same_burst(const AccessRecord& a, const AccessRecord& b) {
  return a.agent == b.agent && a.tick == b.tick && a.warp_sync == b.warp_sync;
}

/// Calls `f(granule, byte mask)` for every four bytes that the access touches.
template <class F>
void for_granules(std::uint32_t offset, std::uint32_t bytes, const F& f) {
  const std::uint32_t end = offset + bytes;
  for (std::uint32_t g = offset / 4; g * 4 < end; ++g) {
    const std::uint32_t lo = std::max(offset, g * 4) - g * 4, hi = std::min(end, g * 4 + 4) - g * 4;
    f(g, static_cast<std::uint8_t>(((1u << (hi - lo)) - 1) << lo));
  }
}

}  // namespace

void Shadow::compare(const AccessRecord& earlier, bool earlier_writes, const AccessRecord& later,
                     bool later_writes, const Access& access, std::uint32_t g) {
  const std::uint8_t common = earlier.bytes & later.bytes;
  if (earlier.tick == 0 || common == 0) return;
  const std::uint32_t offset = g * 4 + static_cast<std::uint32_t>(std::countr_zero(common));
  const auto conflict = [&](ConflictKind kind) {
    on_conflict_({kind, earlier, earlier_writes, later, later_writes, offset});
  };
  if (agents_.of_one_warp(earlier.agent, later.agent)) {
    const bool same_lane = earlier.lane == later.lane && later.lane != kManyLanes;
    if (!same_lane && earlier.warp_sync == later.warp_sync) conflict(ConflictKind::Lanes);
    return;
  }
  if (!access.known->generic.covers(earlier.agent, earlier.tick))
    return conflict(ConflictKind::Unordered);
  if (!access.async_proxy || !earlier_writes ||
      access.known->async_proxy.covers(earlier.agent, earlier.tick))
    return;
  const AgentKind kind = agents_.kind(earlier.agent);
  if (kind == AgentKind::Generic || kind == AgentKind::CpAsync)
    conflict(ConflictKind::NoProxyFence);
}

std::uint32_t Shadow::new_node() {
  if (free_ == 0) {
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t n = free_;
  free_ = nodes_[n].next;
  return n;
}

void Shadow::read_granule(std::uint32_t g, std::uint8_t mask, const Access& access) {
  AccessRecord r = access.record;
  r.bytes = mask;
  Granule& granule = granules_[g];
  compare(granule.write, true, r, false, access, g);
  for (std::uint32_t n = granule.reads; n != 0; n = nodes_[n].next) {
    AccessRecord& known = nodes_[n].record;
    if (known.agent != r.agent) continue;
    if (same_burst(known, r)) {
      known.lane = merged_lane(known, r.lane);
      known.bytes |= mask;
    } else {
      known = r;
    }
    return;
  }
  const std::uint32_t n = new_node();
  nodes_[n] = {r, granule.reads};
  granule.reads = n;
}

void Shadow::write_granule(std::uint32_t g, std::uint8_t mask, const Access& access) {
  AccessRecord r = access.record;
  r.bytes = mask;
  Granule& granule = granules_[g];
  compare(granule.write, true, r, true, access, g);
  std::uint32_t* link = &granule.reads;
  while (*link != 0) {
    Node& node = nodes_[*link];
    compare(node.record, false, r, true, access, g);
    if ((node.record.bytes & mask) == 0) {
      link = &node.next;
      continue;
    }
    const std::uint32_t retired = *link;
    *link = node.next;
    nodes_[retired].next = free_;
    free_ = retired;
  }
  const AccessRecord& w = granule.write;
  if (w.tick != 0 && w.tick == r.tick && w.warp_sync == r.warp_sync &&
      agents_.of_one_warp(w.agent, r.agent)) {
    r.bytes |= w.bytes;
    if (r.lane != w.lane) r.lane = kManyLanes, r.agent = agents_.of_many(r.agent);
  }
  granule.write = r;
}

void Shadow::read(std::uint32_t offset, std::uint32_t bytes, const Access& access) {
  for_granules(offset, bytes,
               [&](std::uint32_t g, std::uint8_t mask) { read_granule(g, mask, access); });
}

void Shadow::write(std::uint32_t offset, std::uint32_t bytes, const Access& access) {
  for_granules(offset, bytes,
               [&](std::uint32_t g, std::uint8_t mask) { write_granule(g, mask, access); });
}

}  // namespace tegula::sim
